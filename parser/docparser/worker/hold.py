# SPDX-License-Identifier: Apache-2.0
"""A task's hold of the baton: given away while it waits, and while its document is slow to read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self, TypeVar

from docparser.documents.reader import Reading
from docparser.worker.baton import FINISHING, STARTING, Baton
from docparser.worker.messages import ReadingEnded, ReadingIsSlow, RunTask

T = TypeVar("T")


class Hold:
    """A task's hold of the baton. Inside this context the task has it, unless it was started ``apart`` and has not read
    its document yet.

    ``on_waiting`` is called when the CPU becomes free; ``report`` gets the messages for the service.
    """

    def __init__(
        self, baton: Baton, run: RunTask, on_waiting: Callable[[], None], report: Callable[[object], None]
    ) -> None:
        self._baton, self._number, self._apart = baton, run.number, run.apart
        self._on_waiting, self._report = on_waiting, report
        self._held = False

    def __enter__(self) -> Self:
        if self._apart:
            self._on_waiting()
        else:
            self._take(STARTING)
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None) -> None:
        if self._held:
            self._baton.give()

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Others have the baton, while the task waits for something."""
        self._baton.give()
        try:
            self._on_waiting()
            yield
        finally:
            self._baton.take(self._number, FINISHING)

    def read(self, read: Callable[[Reading], T], cancelled: Callable[[], bool]) -> T:
        """What ``read`` returns. Afterwards the task has the baton."""
        try:
            value = read(Reading(self._apart, self._step_aside, cancelled))
        finally:
            if self._apart:
                self._report(ReadingEnded(self._number))
        if not self._held:
            self._take(FINISHING)  # the page is in memory
        return value

    def _step_aside(self) -> None:
        self._apart = True
        if self._held:
            self._held = False
            self._baton.give()
        self._report(ReadingIsSlow(self._number, self._baton.used_s(self._number)))
        self._on_waiting()

    def _take(self, priority: int) -> None:
        self._baton.take(self._number, priority)
        self._held = True
