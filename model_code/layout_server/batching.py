# SPDX-License-Identifier: Apache-2.0
"""Batches the pages of all clients. One call takes the pages that came while the device worked, and those that come
within a short wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from layout_server.model import Page

log = logging.getLogger(__name__)

#: A hanging device does not come back, while a call takes only seconds even on a CPU.
LONGEST_CALL_S = 120.0
Run = Callable[[Sequence[Page]], list[list[np.ndarray]]]


class Full(Exception):
    """As many pages wait as are allowed."""


class DeviceFailed(Exception):
    """The device gave an error, after which its process is useless."""


class Batcher:
    """Belongs to one event loop. ``run`` is called in one thread, with at most ``most_pages`` pages.

    ``on_batch`` gets the number of pages of each call. A call that takes longer than ``longest_s`` counts as failed.
    """

    def __init__(
        self,
        run: Run,
        most_pages: int,
        wait_s: float,
        most_waiting: int,
        on_batch: Callable[[int], None],
        longest_s: float = LONGEST_CALL_S,
    ) -> None:
        self._run, self._on_batch, self._longest_s = run, on_batch, longest_s
        self._most_pages, self._wait_s, self._most_waiting = most_pages, wait_s, most_waiting
        self._waiting: dict[asyncio.Future[list[np.ndarray]], Page] = {}  # the oldest first
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="device")
        self.failed: Exception | None = None

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def find(self, page: Page) -> list[np.ndarray]:
        """The page's results. Raises Full, DeviceFailed. A page whose caller is cancelled is left out."""
        if self.failed is not None:
            raise DeviceFailed from self.failed
        if len(self._waiting) >= self._most_waiting:
            raise Full
        answer: asyncio.Future[list[np.ndarray]] = asyncio.get_running_loop().create_future()
        self._waiting[answer] = page
        self._arrived.set()
        try:
            return await answer
        finally:
            self._waiting.pop(answer, None)

    async def work(self) -> None:
        """Runs until the device fails; then all waiting pages get DeviceFailed."""
        loop = asyncio.get_running_loop()
        while self.failed is None:
            await self._arrived.wait()
            deadline = loop.time() + self._wait_s
            while len(self._waiting) < self._most_pages and (left := deadline - loop.time()) > 0:
                self._arrived.clear()
                try:
                    async with asyncio.timeout(left):
                        await self._arrived.wait()
                except TimeoutError:
                    break
            batch = self._take()
            if batch:
                await self._do(batch)

    def _take(self) -> list[tuple[Page, asyncio.Future[list[np.ndarray]]]]:
        batch: list[tuple[Page, asyncio.Future[list[np.ndarray]]]] = []
        while self._waiting and len(batch) < self._most_pages:
            answer = next(iter(self._waiting))
            batch.append((self._waiting.pop(answer), answer))
        if not self._waiting:
            self._arrived.clear()
        return batch

    async def _do(self, batch: list[tuple[Page, asyncio.Future[list[np.ndarray]]]]) -> None:
        try:
            pages = [page for page, _ in batch]
            call = asyncio.get_running_loop().run_in_executor(self._thread, self._run, pages)
            async with asyncio.timeout(self._longest_s):
                found = await call
        except Exception as exc:  # an error of torch, the driver, or memory; the checked pages cannot cause it
            log.exception("the device failed on %d pages", len(batch))
            self.failed = exc
            for answer in (*(answer for _, answer in batch), *self._waiting):
                if not answer.done():
                    answer.set_exception(DeviceFailed())
            return
        self._on_batch(len(batch))
        for (_, answer), results in zip(batch, found, strict=True):
            if not answer.done():
                answer.set_result(results)
