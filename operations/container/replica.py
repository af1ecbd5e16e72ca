# SPDX-License-Identifier: Apache-2.0
"""Become one replica of the VLM server: python -m container.replica INDEX. supervisord starts it again when it ends.

First it ends leftovers of the replica's previous process (vLLM's engine is a process of its own and outlives a killed
API server), waits for its turn, and takes its port, die and cores.

It runs in the environment of supervisord and becomes the server in the environment `vlm`. That environment does not
have this package.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import thread_pools
from container import cores, folders, replicas, status
from health_probe import probe
from tool_errors import run

# The longest wait for the container's first replica: what it read and compiled is then in the machine's memory and in
# HOME's caches for all others, which start together. A broken first one costs them this minute.
TURN_SECONDS = 60
# For the replica before on the same die, because vLLM measures the die's free memory while it starts.
SHARED_DIE_TURN_SECONDS = 600


def record(env: Mapping[str, str], index: int) -> Path:
    """The file that names the process group of a replica's server. It exists while the replica should serve."""
    return Path(env["RUN_DIR"]) / f"replica-{index}"


def processes_of_group(group: int) -> list[int]:
    """Our living processes in a process group, whose number may belong to strangers by now.

    Ours were started with our RUN_DIR. vLLM's engine writes its title over the beginning of its environment, where
    RUN_DIR may be lost; such a process is ours if it carries vLLM's title and works in a replica's folder.
    """
    mark, found = f"RUN_DIR={os.environ['RUN_DIR']}".encode(), []
    works = folders.replicas_folder(os.environ).resolve()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) != group or fields[0] == "Z":
                continue
            environment = (entry / "environ").read_bytes()
            titled = environment.startswith(b"\0") and (entry / "cmdline").read_bytes().startswith(b"VLLM::")
            if mark in environment.split(b"\0") or (titled and (entry / "cwd").resolve().is_relative_to(works)):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def end_previous(file: Path) -> None:
    """Kill the rest of the process group in the record of the replica's previous process."""
    try:
        group = int(file.read_text())
    except (OSError, ValueError):
        return
    if group != os.getpgrp():
        for process in processes_of_group(group):
            os.kill(process, signal.SIGKILL)


def served_for(env: Mapping[str, str]) -> float:
    """Seconds since the container started, or began to serve another half of its dies; 0 where it has not yet."""
    try:
        return max(0.0, time.time() - status.record(env).stat().st_mtime)
    except FileNotFoundError:
        return 0.0


def turn(env: Mapping[str, str], index: int) -> tuple[int, int]:
    """For which replica this one waits, and for how many seconds after the container's start at most. On a shared die
    that is the one before it; a die's first replica waits for the first of all. That one names itself."""
    if behind := index % replicas.per_die(env):
        return index - 1, SHARED_DIE_TURN_SECONDS * behind
    return status.serving(env)[0], TURN_SECONDS


def wait_for_turn(index: int) -> None:
    """Wait until the replica of `turn` answers, but no longer than its turn takes: it may be broken.

    Turns count from the container's start, so a restarting replica waits for nobody.
    """
    before, seconds = turn(os.environ, index)
    deadline = time.monotonic() + seconds - served_for(os.environ)
    while before != index and time.monotonic() < deadline:
        if probe(f"http://127.0.0.1:{replicas.port(os.environ, before)}/health", timeout=2).healthy:
            return
        time.sleep(1)


def main() -> None:
    """This process becomes the server. Raises UsageError where a setting is wrong."""
    index = int(sys.argv[1])
    own_record = record(os.environ, index)
    end_previous(own_record)
    own_record.unlink(missing_ok=True)
    replicas.wait_until_chosen(os.environ, index)
    wait_for_turn(index)
    replicas.wait_until_chosen(os.environ, index)  # a turn takes minutes
    bound, why = cores.of_replica(os.environ, index, sorted(os.sched_getaffinity(0)))
    own = {**replicas.environment(os.environ, index), **thread_pools.environment(os.environ, len(bound))}
    os.sched_setaffinity(0, bound)
    pools = " ".join(f"{name}={own[name]}" for name in thread_pools.POOLS if name in own)
    print(f"replica {index}: {len(bound)} cores from {bound[0]} to {bound[-1]}, {why}; {pools}", flush=True)
    own |= folders.make(os.environ, index)
    os.chdir(own["ASCEND_WORK_PATH"])
    own_record.write_text(f"{os.getpgrp()}\n")
    # An image has one environment of this name; local mode names its stack's.
    python = f"{os.environ['ENVS_DIR']}/{os.environ.get('VLM_ENVIRONMENT', 'vlm')}/bin/python"
    os.execve(python, [python, "-m", "vlm_server"], {**os.environ, **own})


if __name__ == "__main__":
    sys.exit(run(main))
