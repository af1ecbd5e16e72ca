# SPDX-License-Identifier: Apache-2.0
"""Become one replica of the VLM server: replica.py INDEX. supervisord runs it and starts it again when it ends.

Before it becomes the server it waits for its turn, ends what a former incarnation may have left (vLLM's engine is a
process of its own and outlives a killed API server), and takes its port, die and cores.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from container import replicas  # noqa: E402
from health_probe import probe  # noqa: E402

# The most that a replica waits for the one before it: starting all at once would read the weights as many times at once.
TURN_SECONDS = 60


def remains(group: int) -> list[int]:
    """Living processes of a process group that are ours: the number may belong to others by now.

    Ours were started with our RUN_DIR. vLLM's engine writes its title over the beginning of its environment, so a process of
    which that is lost counts where it carries such a title and works in our folder.
    """
    mark, found = f"RUN_DIR={os.environ['RUN_DIR']}".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) != group or fields[0] == "Z":
                continue
            environment = (entry / "environ").read_bytes()
            titled = environment.startswith(b"\0") and (entry / "cmdline").read_bytes().startswith(b"VLLM::")
            if mark in environment.split(b"\0") or (titled and (entry / "cwd").resolve() == Path.cwd()):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def end_former(record: Path) -> None:
    """Kill what is left of the process group that `record` names."""
    try:
        group = int(record.read_text())
    except (OSError, ValueError):
        return
    if group != os.getpgrp():
        for process in remains(group):
            os.kill(process, signal.SIGKILL)


def wait_for_turn(index: int) -> None:
    """Wait until the replica before this one answers, but not for ever: it may be broken."""
    deadline = time.monotonic() + TURN_SECONDS * index
    while index and time.monotonic() < deadline:
        if probe(f"http://127.0.0.1:{replicas.port(os.environ, index - 1)}/health", timeout=2).healthy:
            return
        time.sleep(1)


def bind_cores(index: int) -> None:
    """On CPU, keep replicas out of each other's way; threads and child processes inherit the binding."""
    count = int(os.environ.get("VLM_REPLICAS") or 1)
    if os.environ.get("HARDWARE") == "cpu" and count > 1:
        os.sched_setaffinity(0, replicas.cores(list(os.sched_getaffinity(0)), count, index))


def main() -> None:
    index = int(sys.argv[1])
    record = Path(os.environ["RUN_DIR"]) / f"replica-{index}"
    end_former(record)
    wait_for_turn(index)
    env = {**os.environ, **replicas.environment(os.environ, index)}
    bind_cores(index)
    record.write_text(f"{os.getpgrp()}\n")
    os.execve(sys.executable, [sys.executable, "-m", "vlm_server"], env)


if __name__ == "__main__":
    main()
