# SPDX-License-Identifier: Apache-2.0
"""End supervisord, and with it the container, when a program has given up. Runs as a listener of supervisord's events.

A program has given up when it ended with a status that is not retried (2, a wrong configuration), or did not start
after several tries.
"""

from __future__ import annotations

import os
import signal
import sys

# The parser goes on without the layout server, so the container does too.
OPTIONAL = {"layout"}


def given_up(event: str, payload: dict[str, str]) -> bool:
    """Whether supervisord will not start the program again after this event, and the container needs it."""
    if payload.get("processname") in OPTIONAL:
        return False
    return event == "PROCESS_STATE_FATAL" or (event == "PROCESS_STATE_EXITED" and payload.get("expected") == "1")


def pairs(text: str) -> dict[str, str]:
    """`a:1 b:2` as a mapping, the form of supervisord's event headers and payloads."""
    return dict(word.split(":", 1) for word in text.split())


def main() -> None:
    while True:
        sys.stdout.write("READY\n")
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            return
        header = pairs(line)
        payload = pairs(sys.stdin.read(int(header["len"])).splitlines()[0])
        if given_up(header["eventname"], payload):
            print(f"{payload.get('processname')} has given up: ending the container", file=sys.stderr, flush=True)
            os.kill(os.getppid(), signal.SIGTERM)
        sys.stdout.write("RESULT 2\nOK")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
