# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SIGTERM and SIGHUP: they unwind the call as an exception, so that what it started is stopped."""

from __future__ import annotations

import signal

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """The call was told to end; `status` is the exit status of a process that ended by that signal."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.status = 128 + signum


def raise_interrupted() -> None:
    """Let each signal raise Interrupted where the program is."""
    for signum in SIGNALS:
        signal.signal(signum, _handle)


def ignore() -> None:
    """Ignore the signals from here on: a second Ctrl-C while services are stopped would leave processes behind."""
    for signum in SIGNALS:
        signal.signal(signum, signal.SIG_IGN)


def _handle(signum: int, _frame: object) -> None:
    raise Interrupted(signum)
