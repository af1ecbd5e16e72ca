# SPDX-License-Identifier: Apache-2.0
"""Progress lines on stderr: what the script waits for, and for how long."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

TICK_SECONDS = 5.0
_BEGAN = time.monotonic()


def say(text: str) -> None:
    """Write one line to stderr, with the seconds since the script began in front."""
    sys.stderr.write(f"[{time.monotonic() - _BEGAN:6.1f} s] {text}\n")
    sys.stderr.flush()


def plural(count: int, what: str) -> str:
    """`1 document`, `2 documents`."""
    return f"{count} {what}" + ("" if count == 1 else "s")


def last_line(*outputs: str, otherwise: str = "no message") -> str:
    """Why a command failed, in its own words: the last line of its first output that is not blank."""
    return next(filter(None, map(str.strip, outputs)), otherwise).splitlines()[-1]


class Ticker:
    """A thread that repeats `waiting for ...` every few seconds until it is stopped.

    `detail` may be replaced while it runs; it is shown behind the elapsed time.
    """

    def __init__(self, what: str) -> None:
        self.detail = ""
        self._what = what
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def elapsed(self) -> float:
        """Seconds since the ticker was made."""
        return time.monotonic() - self._began

    def start(self) -> None:
        """Begin to tick."""
        self._thread.start()

    def stop(self) -> None:
        """Stop ticking; returns once the thread has ended."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(TICK_SECONDS):
            say(f"  ... {self._what}, {self.elapsed:.0f} s" + (f" ({self.detail})" if self.detail else ""))


@contextmanager
def step(what: str) -> Iterator[Ticker]:
    """Announce a step, tick while it runs, and say how long it took when it succeeds."""
    say(f"{what} ...")
    ticker = Ticker(what)
    ticker.start()
    try:
        yield ticker
    finally:
        ticker.stop()
    say(f"{what}: done in {ticker.elapsed:.1f} s")


def run_logged(command: Sequence[str], log: Path, what: str, env: dict[str, str] | None = None) -> int:
    """Run a command with its output appended to `log`, ticking meanwhile; returns its exit status.

    The command stays in our process group, so that Ctrl-C in a terminal reaches it too.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with step(what), log.open("ab") as sink:
        process = subprocess.Popen(list(command), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=env)
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
