# SPDX-License-Identifier: Apache-2.0
"""End supervisord, and with it the container, when a program has given up. Runs as a listener of supervisord's events.

A program has given up when it ended with a status that is not retried (2, a wrong configuration), or when it ended, or
did not start, several times in a row. The container then ends with 2 or 1.

A replica of the VLM takes long to start, so its ends seldom follow each other within seconds. While none has answered
since the container's start, they count however far apart they are, once the first replica of each die has ended: one
bad die is no reason to end the container while the others load.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping

from container import supervisord
from tool_errors import FAILED, UsageError

# The parser works without the layout server, so the container goes on too.
OPTIONAL = {"layout"}
# A program that ends so often, each time within so many seconds of the last, has given up.
TRIES, QUICK_S = 4, 5.0


class Guard:
    """Judges supervisord's events. Remembers each program's last end, how many ends followed each other, and how many
    there were."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._ends: dict[str, tuple[float, int, int]] = {}

    def status(self, event: str, payload: dict[str, str], now: float) -> int | None:
        """The exit status of the container, None while it is to go on. `now` is in seconds of any clock."""
        name = payload.get("processname", "")
        if name in OPTIONAL:
            return None
        if event == "PROCESS_STATE_FATAL":
            return FAILED
        if event != "PROCESS_STATE_EXITED":
            return None
        if payload.get("expected") == "1":  # exitcodes of config/supervisor
            return UsageError.exit_status
        last, row, ends = self._ends.get(name, (now, 0, 0))
        row, ends = row + 1 if now - last <= QUICK_S else 1, ends + 1
        self._ends[name] = now, row, ends
        return FAILED if row >= TRIES or (ends >= TRIES and self._no_replica_starts(name)) else None

    def _no_replica_starts(self, name: str) -> bool:
        """Whether `name` is a replica, none has answered since the container's start, and no die's first one is still
        at its first try."""
        if not name.startswith("vlm-") or supervisord.balancer_file(self._env).exists():
            return False
        from container import replicas, status  # the parser's image has no replicas

        firsts = [index for index in status.serving(self._env) if index % replicas.per_die(self._env) == 0]
        return all(f"vlm-{index}" in self._ends for index in firsts)


def pairs(text: str) -> dict[str, str]:
    """`a:1 b:2` as a mapping, the form of supervisord's event headers and payloads."""
    return dict(word.split(":", 1) for word in text.split())


def main() -> None:
    guard = Guard(os.environ)
    while True:
        sys.stdout.write("READY\n")
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            return
        header = pairs(line)
        payload = pairs(sys.stdin.read(int(header["len"])).splitlines()[0])
        event, name = header["eventname"], payload.get("processname", "")
        if name in OPTIONAL and (event == "PROCESS_STATE_FATAL" or payload.get("expected") == "1"):
            supervisord.stays_away(os.environ, name).touch()
        status = guard.status(event, payload, time.monotonic())
        if status is not None:
            print(
                f"{name} has given up: ending the container with status {status}",
                file=sys.stderr,
                flush=True,
            )
            supervisord.exit_status(os.environ).write_text(f"{status}\n")
            os.kill(os.getppid(), signal.SIGTERM)
        sys.stdout.write("RESULT 2\nOK")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
