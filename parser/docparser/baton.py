# SPDX-License-Identifier: Apache-2.0
"""One page at a time has the worker's CPU; the others wait for the VLM.

PaddleX's pipeline is synchronous and shares state between calls, so pages run in threads of which only the holder of
the baton may touch it. A page gives the baton away while the VLM reads its blocks: that is when the next page's layout
is found. Pages that come back go first: they are nearly done, and hold memory.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import threading
import time
from collections.abc import Iterator

FINISHING, STARTING = 0, 1


class HolderSlot:
    """Who holds the baton, in memory that outlives the worker: the service sees which page a worker died on.

    ``array``: two doubles shared between both processes, the task's number (0: nobody) and since when, in seconds of
    the system's monotonic clock.
    """

    def __init__(self, array) -> None:
        self._array = array

    def set(self, task: int) -> None:
        self._array[1] = time.monotonic()
        self._array[0] = float(task)

    def clear(self) -> None:
        self._array[0] = 0.0

    @property
    def task(self) -> int:
        return int(self._array[0])

    @property
    def held_s(self) -> float:
        """Seconds that the present holder has had the baton; 0 if there is none."""
        return time.monotonic() - self._array[1] if self._array[0] else 0.0


class Baton:
    def __init__(self, slot: HolderSlot) -> None:
        self._slot = slot
        self._condition = threading.Condition()
        self._order = itertools.count()
        self._queue: list[tuple[int, int]] = []
        self._held = False

    def take(self, task: int, priority: int) -> None:
        with self._condition:
            turn = (priority, next(self._order))
            heapq.heappush(self._queue, turn)
            self._condition.wait_for(lambda: not self._held and self._queue[0] == turn)
            heapq.heappop(self._queue)
            self._held = True
            self._slot.set(task)

    def give(self) -> None:
        with self._condition:
            self._held = False
            self._slot.clear()
            self._condition.notify_all()

    @contextlib.contextmanager
    def held(self, task: int, priority: int = STARTING) -> Iterator[None]:
        self.take(task, priority)
        try:
            yield
        finally:
            self.give()

    @property
    def idle(self) -> bool:
        """Nobody holds it and nobody waits for it."""
        with self._condition:
            return not self._held and not self._queue
