# SPDX-License-Identifier: Apache-2.0
"""python -m container.take_half first|second|all: choose which dies this container uses (see `container.replicas`).

Replicas of the other half finish their requests before this ends. Replicas of the chosen half begin to load.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

from container import replica, replicas, status
from tool_errors import UsageError, run

# As long as HAProxy lets a request take (`timeout server` in config/haproxy.cfg).
DRAIN_SECONDS, END_SECONDS = 910, 20


def ask_balancer(env: Mapping[str, str], command: str) -> str:
    """HAProxy's answer to a command, an empty text where HAProxy does not run."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(f"{env['RUN_DIR']}/haproxy.sock")
            connection.sendall(f"{command}\n".encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()
        except OSError:
            return ""


def in_work(env: Mapping[str, str], index: int) -> int:
    """Requests that HAProxy has with a replica."""
    rows = [line.split(",") for line in ask_balancer(env, "show stat").splitlines() if line.startswith("replicas,")]
    return next((int(row[4] or 0) for row in rows if row[1] == f"replica-{index}"), 0)


def processes(env: Mapping[str, str], index: int) -> list[int]:
    """The processes of a replica's server; [] while it waits or begins."""
    try:
        return replica.processes_of_group(int(replica.record(env, index).read_text()))
    except (OSError, ValueError):
        return []


def give_up(env: Mapping[str, str], indices: list[int]) -> None:
    """End these replicas when their requests are done. supervisord starts them again, and they wait."""
    for index in indices:
        ask_balancer(env, f"set server replicas/replica-{index} state drain")
    deadline = time.monotonic() + DRAIN_SECONDS
    while any(in_work(env, index) for index in indices) and time.monotonic() < deadline:
        time.sleep(0.5)
    for signum in (signal.SIGTERM, signal.SIGKILL):
        for index in indices:
            for process in processes(env, index):
                with suppress(ProcessLookupError):
                    os.kill(process, signum)
        deadline = time.monotonic() + END_SECONDS
        while any(processes(env, index) for index in indices) and time.monotonic() < deadline:
            time.sleep(0.5)


def choose(env: Mapping[str, str], half: str) -> None:
    """Take a half, or all. Raises UsageError if the dies do not make two halves."""
    if half in replicas.HALVES and replicas.places(env) < 2:
        raise UsageError("one die cannot be halved; expected two dies or more (NPU_IDS; on CPU VLM_REPLICAS)")
    everyone = range(int(env["VLM_REPLICAS"]))
    before = {index for index in everyone if replicas.serves(env, index)}
    replicas.half_file(env).write_text(f"{half}\n")
    after = {index for index in everyone if replicas.serves(env, index)}
    for index in after:
        ask_balancer(env, f"set server replicas/replica-{index} state ready")
    give_up(env, sorted(before - after))
    status.write(env)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("half", choices=(*replicas.HALVES, "all"))
    choose(status.settings(dict(os.environ)), arguments.parse_args().half)


if __name__ == "__main__":
    sys.exit(run(main))
