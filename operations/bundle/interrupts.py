# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SIGTERM and SIGHUP let a call unwind, so that what it started is stopped."""

from __future__ import annotations

import signal

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_told: list[int] = []  # the signals that came


class Interrupted(BaseException):
    """A signal told the call to end. `status` is the exit status of a process that ended by that signal."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.status = 128 + signum


def raise_interrupted() -> None:
    """Let each signal raise Interrupted where the program is."""
    for signum in SIGNALS:
        signal.signal(signum, _handle)


def ignore_signals() -> None:
    """Ignore the signals from here on: a second Ctrl-C while services are stopped would leave processes behind."""
    for signum in SIGNALS:
        signal.signal(signum, signal.SIG_IGN)
    _told.clear()


def check() -> None:
    """Raise Interrupted if a signal came whose exception was lost. What waits in a loop calls this in each turn.

    Why: Python drops an exception that is raised while it finalizes an object. An HTTP answer is such an object at the
    end of each probe: of 2,858 signals amid probes, five were lost so.
    """
    if _told:
        raise Interrupted(_told[0])


def _handle(signum: int, _frame: object) -> None:
    _told.append(signum)
    raise Interrupted(signum)
