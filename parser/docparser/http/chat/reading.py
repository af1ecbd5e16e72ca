# SPDX-License-Identifier: Apache-2.0
"""A document while it is read: the Markdown of its pages in order, each as soon as all before it are there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from docparser.convert.characters import writable
from docparser.errors import RequestTimeout
from docparser.parsing.entry_store import EMPTY_ENTRY
from docparser.parsing.page_report import PageOutcome
from docparser.parsing.result import ParseResult

HEARTBEAT_S = 10.0
Arrived = Callable[[PageOutcome], None]
Work = Callable[[Arrived], Coroutine[Any, Any, ParseResult]]


class Reading:
    """Begins the work at once; ``close`` ends it and leaves nothing behind. Belongs to one event loop."""

    def __init__(self, work: Work, *, joined: bool, limit_s: float) -> None:
        """``joined``: pages have no text before all are there. ``limit_s``: the longest time for all pages."""
        self._early: dict[int, bytes] = {}
        self._sent = 0
        self._begun = False
        self._limit_s = limit_s
        self._deadline = asyncio.get_running_loop().time() + limit_s
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._task = asyncio.create_task(work((lambda outcome: None) if joined else self._arrived))
        self._task.add_done_callback(lambda _: self._queue.put_nowait(None))

    def _arrived(self, outcome: PageOutcome) -> None:
        self._early[outcome.index] = outcome.parsed.entry if outcome.parsed else EMPTY_ENTRY
        # Until the VLM has read a block, the answer may become an error.
        self._begun = self._begun or (outcome.parsed is not None and outcome.parsed.blocks_answered > 0)
        while self._begun and (entry := self._early.pop(self._sent, None)) is not None:
            self._queue.put_nowait(entry)
            self._sent += 1

    async def texts(self) -> AsyncIterator[str]:
        """The text of each page that has one, and "" after each HEARTBEAT_S without. Raises ParserError."""
        clock = asyncio.get_running_loop().time
        while True:
            try:
                async with asyncio.timeout_at(min(self._deadline, clock() + HEARTBEAT_S)):
                    entry = await self._queue.get()
            except TimeoutError:
                if clock() >= self._deadline:
                    raise RequestTimeout(
                        f"The document was given up after {self._limit_s:.0f} s (PARSER_REQUEST_TIMEOUT_S)."
                    ) from None
                yield ""
                continue
            if entry is None:
                break
            if text := await asyncio.to_thread(_markdown, entry):
                yield text
        for number, entry in enumerate(self.result.entries()):
            if number >= self._sent and (text := await asyncio.to_thread(_markdown, entry)):
                yield text

    @property
    def result(self) -> ParseResult:
        """Once ``texts`` has ended. Raises ParserError."""
        return self._task.result()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if not self._task.cancelled() and self._task.exception() is None:
            self._task.result().close()


def _markdown(entry: bytes) -> str:
    """As ``convert.formats`` writes it."""
    return writable(json.loads(entry)["markdown"]["text"]).strip()
