# SPDX-License-Identifier: Apache-2.0
"""Room for decoded images and videos: so many pixels at once, over all requests.

A file of 18 kB can hold 144 million pixels of one bit, which take 600 MB as RGB. A request takes room for all of its
images before the first is decoded, so that two requests never wait for each other. For a video's file it takes what
one may have at most, until it is decoded; then what it has. Each image and clip gives its room back when it is freed:
at once when there are patches of it, though vLLM 0.11.1 holds it until the answer is complete.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections import deque
from contextvars import ContextVar
from typing import Any

# The room of the request that is being worked on, for the media connector.
ROOM: ContextVar[Room | None] = ContextVar("ROOM", default=None)


class Room:
    """What one request has taken of a budget and not yet given back; pixels. ``of_a_video``: of that, for each video
    that is a file."""

    def __init__(self, budget: PixelBudget, pixels: int) -> None:
        self.budget, self.left, self.of_a_video = budget, pixels, 0
        self._loop = asyncio.get_running_loop()

    def give_back_with(self, image: Any, pixels: int) -> None:
        """Give back ``pixels`` when ``image`` is freed, in whichever thread that happens."""
        image.room = weakref.finalize(image, self._freed, pixels)
        image.room.atexit = False

    def _freed(self, pixels: int) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has been closed: nobody waits any more
            self._loop.call_soon_threadsafe(self.give_back, pixels)

    def give_back(self, pixels: int) -> None:
        given = min(pixels, self.left)
        self.left -= given
        self.budget.give_back(given)

    def close(self) -> None:
        """Give back all that is left: the request is over."""
        self.give_back(self.left)


def free(image: Any) -> None:
    """Free the pixels of a request's image or clip, whoever holds it on; others, as those of vLLM's profiling, stay."""
    if room := getattr(image, "room", None):
        image.close()
        room()


class PixelBudget:
    """``most`` pixels for all requests of an event loop. Requests that find no room wait in the order they came."""

    def __init__(self, most: int) -> None:
        self.most, self.used = most, 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, pixels: int, patience_s: float) -> Room:
        """Room for ``pixels``, at most ``most``. Raises TimeoutError when there was none for ``patience_s``."""
        if pixels and (self._waiting or self.used + pixels > self.most):
            place = pixels, asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            try:
                async with asyncio.timeout(patience_s):
                    await asyncio.shield(place[1])
            except BaseException:
                if place in self._waiting:
                    self._waiting.remove(place)
                else:  # it got its room in the same moment
                    self.used -= pixels
                self._let_in()
                raise
        else:
            self.used += pixels
        return Room(self, pixels)

    def give_back(self, pixels: int) -> None:
        self.used -= pixels
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self.used + self._waiting[0][0] <= self.most:
            pixels, room = self._waiting.popleft()
            self.used += pixels
            room.set_result(None)
