# SPDX-License-Identifier: Apache-2.0
"""The lock by which one page at a time uses the worker's CPU, while the others wait for the VLM.

Pages run in threads, and only the thread that holds the baton computes. A page gives the baton away while the VLM
reads its blocks; meanwhile the next page's layout is detected. Pages that return go first, because they are nearly done
and hold memory.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self, TypeVar

from docparser.documents.reader import Reading
from docparser.worker.messages import ReadingEnded, ReadingIsSlow, RunTask
from docparser.worker.process import HolderSlot

FINISHING, STARTING = 0, 1
T = TypeVar("T")


class Baton:
    def __init__(self, slot: HolderSlot) -> None:
        self._slot = slot
        self._condition = threading.Condition()
        self._order = itertools.count()
        self._queue: list[tuple[int, int]] = []
        self._held, self._holder = False, 0
        self._taken_at = 0.0
        self._used_s: dict[int, float] = {}

    def take(self, task: int, priority: int) -> None:
        with self._condition:
            turn = (priority, next(self._order))
            heapq.heappush(self._queue, turn)
            self._condition.wait_for(lambda: not self._held and self._queue[0] == turn)
            heapq.heappop(self._queue)
            self._held, self._holder = True, task
            self._taken_at = time.monotonic()
            self._slot.set(task)

    def give(self) -> None:
        with self._condition:
            self._held = False
            held_s = time.monotonic() - self._taken_at
            self._used_s[self._holder] = self._used_s.get(self._holder, 0.0) + held_s
            self._slot.clear()
            self._condition.notify_all()

    def used_s(self, task: int) -> float:
        """Seconds that ``task`` has held the baton so far."""
        with self._condition:
            return self._used_s.get(task, 0.0)

    def forget(self, task: int) -> None:
        """``task`` has ended."""
        with self._condition:
            self._used_s.pop(task, None)

    @property
    def idle(self) -> bool:
        """Nobody holds it and nobody waits for it."""
        with self._condition:
            return not self._held and not self._queue


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
