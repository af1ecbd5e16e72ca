# SPDX-License-Identifier: Apache-2.0
"""Whether the VLM server answers at all, as the calls of one process see it.

A failed call does not tell whether the server fails on this block or is away. Other calls tell: if one is answered
after the failure, the server is there. Where no other call is under way, a tiny image is asked for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from docparser.errors import VlmUnavailable

FORGET_S = 10.0  # failures that lie further apart than this and the patience belong to two absences


class Presence:
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
