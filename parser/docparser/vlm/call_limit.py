# SPDX-License-Identifier: Apache-2.0
"""Limits the concurrent calls of the VLM to as many as it serves without a long wait.

Additive increase, multiplicative decrease, as in TCP (Chiu and Jain, 1989), with the time to the first token as the
signal: it includes the queueing in the VLM server but not the decoding. While the server keeps up, the limit doubles
per round, so it is reached within seconds. When the server refuses (429, 503), times out or is away, the limit falls at
once.
"""

from __future__ import annotations

import asyncio
import collections
import time

DECREASE_WAIT, DECREASE_REFUSED = 0.85, 0.5
PAUSE_S = 1.0  # between two decreases, because calls of one moment fail for one reason


class CallLimit:
    """A semaphore whose size changes. Used in one event loop; first come, first served."""

    def __init__(self, *, start: int, lowest: int, highest: int, target_s: float) -> None:
        self._lowest, self._highest = min(lowest, highest), highest
        self._limit = float(min(max(start, self._lowest), highest))
        self._target_s = target_s
        self._waiting: collections.deque[asyncio.Future] = collections.deque()
        self._last_decrease = float("-inf")
        self.in_flight = 0

    @property
    def limit(self) -> int:
        return int(self._limit)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def acquire(self) -> None:
        if self.in_flight < self.limit and not self._waiting:
            self.in_flight += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # the caller had its turn and does not use it
            elif turn in self._waiting:  # `_wake` may have passed it over already
                self._waiting.remove(turn)
            raise

    def release(self) -> None:
        self.in_flight -= 1
        self._wake()

    def answered(self, first_token_s: float | None) -> None:
        """A call was answered; ``first_token_s`` is None where the server did not stream."""
        if first_token_s is not None and first_token_s > self._target_s:
            self._decrease(DECREASE_WAIT)
        elif self._waiting or self.in_flight >= self.limit:
            self._limit = min(self._limit + 1, self._highest)
            self._wake()

    def refused(self) -> None:
        """The server had no room, did not answer in time, or was not there."""
        self._decrease(DECREASE_REFUSED)

    def _decrease(self, factor: float) -> None:
        now = time.monotonic()
        if now - self._last_decrease >= PAUSE_S:
            self._last_decrease = now
            self._limit = max(self._limit * factor, self._lowest)

    def _wake(self) -> None:
        while self._waiting and self.in_flight < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)
