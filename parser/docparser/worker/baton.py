# SPDX-License-Identifier: Apache-2.0
"""The lock by which one page at a time uses the worker's CPU, while the others wait for the VLM.

Pages run in threads, and only the thread that holds the baton computes. A page gives the baton away while the VLM
reads its blocks; meanwhile the next page's layout is detected. Pages that return go first, because they are nearly done
and hold memory.
"""

from __future__ import annotations

import ctypes
import heapq
import itertools
import threading
import time

FINISHING, STARTING = 0, 1


class HolderSlot:
    """The baton's holder, in shared memory, so that the service sees which page a worker died on.

    ``array`` is two doubles shared by both processes: the holder's task number (0: nobody), and since when it holds the
    baton, in seconds of the system's monotonic clock.
    """

    def __init__(self, array: ctypes.Array[ctypes.c_double]) -> None:
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
        """Seconds since the present holder got the baton; 0 if nobody has it."""
        return time.monotonic() - self._array[1] if self._array[0] else 0.0


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
