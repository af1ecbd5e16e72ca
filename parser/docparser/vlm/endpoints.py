# SPDX-License-Identifier: Apache-2.0
"""The VLM servers: which one gets a call, where no balancer stands in front of them, whether any answers, and how many
calls they have at once."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from urllib.parse import urlsplit

from docparser.errors import VlmUnavailable

FORGET_S = 10.0  # failures that lie further apart than this and the patience belong to two absences
FIRST_REST_S = 1.0  # of a server that failed
LONGEST_REST_S = 30.0
DECREASE_WAIT, DECREASE_REFUSED = 0.85, 0.5
PAUSE_S = 1.0  # between two decreases, because calls of one moment fail for one reason


class Reachability:
    """Belongs to one event loop. ``ask`` says whether the server answers a tiny image. Times: ``time.monotonic``."""

    def __init__(self, url: str, patience_s: float, ask: Callable[[], Awaitable[bool]]) -> None:
        self._url = url
        self._patience_s = patience_s
        self._ask = ask
        self._asking = asyncio.Lock()
        self._asked = float("-inf")
        self._away_since: float | None = None
        self.last_answer = float("-inf")
        self.last_loss = float("-inf")

    def answered(self) -> None:
        """A call was answered, whatever it was about."""
        self.last_answer = time.monotonic()
        self._away_since = None

    async def answers_since(self, moment: float) -> bool:
        """Whether the server has answered a call, or the tiny image, after ``moment``."""
        if self.last_answer > moment:
            return True
        async with self._asking:
            if self.last_answer <= moment and self._asked <= moment:
                asked = time.monotonic()
                if await self._ask():
                    self.answered()
                self._asked = asked
        return self.last_answer > moment

    def failed(self) -> None:
        """A call failed: what was answered before proves nothing any more."""
        self.last_loss = time.monotonic()

    def away(self, words: str) -> None:
        """The server is not there. Raises VlmUnavailable once that is so for PARSER_VLM_PATIENCE_S."""
        now = time.monotonic()
        if self._away_since is None or now - self._seen_away > self._patience_s + FORGET_S:
            self._away_since = now
        self._seen_away = now
        if now - self._away_since >= self._patience_s:
            raise VlmUnavailable(f"The VLM server at {self._url} cannot be reached ({words}).")

    _seen_away = float("-inf")


@dataclasses.dataclass
class Endpoint:
    """One server. ``url`` is its API root; ``in_work`` counts the calls of this process that it has now."""

    url: str
    in_work: int = 0
    given: int = 0  # calls so far
    failures: int = 0  # since it last answered
    rests_until: float = float("-inf")  # time.monotonic()

    @property
    def host(self) -> str:
        """With its port."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    def answered(self) -> None:
        self.failures, self.rests_until = 0, float("-inf")

    def failed(self) -> None:
        """It rests: the others get its calls, and one call tries it again afterwards."""
        self.failures += 1
        self.rests_until = time.monotonic() + min(LONGEST_REST_S, FIRST_REST_S * 2 ** min(self.failures - 1, 10))


class Endpoints:
    """A call goes to the server with the fewest calls in work, so a slower one gets fewer. Belongs to one event
    loop."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.all = [Endpoint(url) for url in urls]

    @contextlib.contextmanager
    def one(self) -> Iterator[Endpoint]:
        """A server for one call; it has the call as long as the context."""
        now, awake = time.monotonic(), self.awake
        # Of two with as much in work, the one that was given less: else the first would have all calls of a quiet time.
        chosen = min(awake or self.all, key=lambda endpoint: (endpoint.in_work, endpoint.given))
        if chosen.failures and awake:
            chosen.rests_until = now + FIRST_REST_S  # this call tries it; others do not follow at once
        chosen.in_work += 1
        chosen.given += 1
        try:
            yield chosen
        finally:
            chosen.in_work -= 1

    @property
    def awake(self) -> list[Endpoint]:
        """Those that do not rest; of one server alone, none for a while after it failed."""
        now = time.monotonic()
        return [endpoint for endpoint in self.all if endpoint.rests_until <= now]

    def __str__(self) -> str:
        return ", ".join(endpoint.url for endpoint in self.all)


class CallLimit:
    """A semaphore whose size changes: as many calls as the VLM serves without a long wait. Used in one event loop;
    first come, first served.

    Additive increase, multiplicative decrease, as in TCP (Chiu and Jain, 1989), with the time to the first token as the
    signal: it includes the queueing in the VLM server but not the decoding. While the server keeps up, the limit
    doubles per round, so it is reached within seconds. When the server refuses (429, 503), times out or is away, the
    limit falls at once.
    """

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
