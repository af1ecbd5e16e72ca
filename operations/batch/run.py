# SPDX-License-Identifier: Apache-2.0
"""One run: survey the documents, send their pages to all parsers, and write a document's outputs after its last
page."""

from __future__ import annotations

import argparse
import asyncio
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from docparser.convert.searchable_pdf import UneditablePdf
from tool_errors import ParseError, ServiceError

from . import answers, outputs
from .inputs import Document
from .pages import Page, PageCutter
from .parsers import AttemptFailed, Parser, Unavailable
from .progress import Display
from .state import DocumentState, Trouble

MAX_TRIES = 3
MAX_REFUSALS = 6


@dataclass
class Work:
    """The pages of one document that are still to be parsed; `left` counts those without a result yet."""

    state: DocumentState
    pages: list[int]
    left: int = 0


async def survey(
    options: argparse.Namespace, documents: Sequence[Document], display: Display, reader: PageCutter
) -> tuple[list[Work], list[DocumentState]]:
    """Count the pages of every document, and find those that earlier runs left.

    Returns the documents with something to do, and the states of all. The display's counts are filled in.
    """
    loop, drawing = asyncio.get_running_loop(), "layout" in options.formats
    works, states = [], []
    for document in documents:
        state = DocumentState(document, options.out, options.options)
        states.append(state)
        count = state.count
        if count is None:
            outputs.remove_all(state)
            try:
                count = await loop.run_in_executor(reader.thread, reader.count, document.path)
                state.start(count)
                state.tell(1, await loop.run_in_executor(reader.thread, reader.notes, document.path))
            except ParseError as error:
                state.note(Trouble(0, str(error)))
                continue
            state.clear(0)
        missing = state.missing(drawing=drawing, retry=options.retry_failed)
        display.counts.total += count
        lost = sum(trouble.lost and trouble.page not in missing for trouble in state.trouble if trouble.page)
        display.counts.skipped += lost
        display.counts.earlier += count - len(missing) - lost
        if missing or not set(options.formats) <= set(state.written):
            state.mark_written([])
            works.append(Work(state, missing))
    return works, states


@dataclass
class PageTask:
    """One page that is being parsed.

    `tries` counts the attempts that failed on this page. `refusals` counts how often a parser lost its VLM with this
    page, although it was ready before and after.
    """

    work: Work
    number: int
    tries: int = 0
    refusals: int = 0


@dataclass
class Run:
    """One run over `works`. A parser is given up after `patience` seconds without a parsed page."""

    parsers: Sequence[Parser]
    works: list[Work]
    formats: Sequence[str]
    options: dict[str, Any]
    concurrency: int
    patience: float
    display: Display
    reader: PageCutter
    _again: deque[PageTask] = field(default_factory=deque)
    _in_flight: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self) -> None:
        """Parse all pages. Raises ServiceError if every parser was given up while pages were left."""
        self._tasks = self._in_order()
        for work in self.works:
            if not work.pages:
                await self._write(work.state)
        senders = [self._feed(parser) for parser in self.parsers for _ in range(self.concurrency)]
        async with asyncio.TaskGroup() as together:
            tasks = [together.create_task(sender) for sender in senders]
        reasons = [task.result() for task in tasks if task.result()]
        if len(reasons) == len(tasks):
            raise ServiceError(reasons[0])

    def _in_order(self) -> Iterator[PageTask]:
        for work in self.works:
            work.left = len(work.pages)
            for number in work.pages:
                yield PageTask(work, number)

    async def _next(self) -> PageTask | None:
        """Return the next page, or None when all are done. Waits while others are being parsed: they may come back."""
        async with self._changed:
            while True:
                task = self._again.popleft() if self._again else next(self._tasks, None)
                if task is not None:
                    self._in_flight += 1
                    return task
                if not self._in_flight:
                    return None
                await self._changed.wait()

    async def _returned(self, again: PageTask | None = None) -> None:
        async with self._changed:
            self._in_flight -= 1
            if again is not None:
                self._again.append(again)
            self._changed.notify_all()

    async def _feed(self, parser: Parser) -> str | None:
        """Send one page after the other to one parser.

        Returns why the parser was given up, or None at the end of all work.
        """
        while (task := await self._next()) is not None:
            try:
                await self._parse(parser, task)
            except Unavailable as unavailable:
                task.refusals += unavailable.refused
                if task.refusals >= MAX_REFUSALS:
                    await self._done(task, f"{unavailable} ({MAX_REFUSALS} tries)")
                    continue
                await self._returned(again=task)
                try:
                    await parser.wait(unavailable, self.patience)
                except ServiceError as error:
                    self.display.say(f"{error}")
                    return str(error)
            except AttemptFailed as failed:
                task.tries += 1
                if task.tries < MAX_TRIES:
                    await self._returned(again=task)
                else:
                    await self._done(task, f"{failed} ({MAX_TRIES} tries)")
            except ParseError as error:
                await self._done(task, str(error))
            except BaseException:
                await self._returned(again=task)
                raise
        return None

    async def _parse(self, parser: Parser, task: PageTask) -> None:
        loop, state = asyncio.get_running_loop(), task.work.state
        page: Page = await loop.run_in_executor(self.reader.thread, self.reader.read, state.document.path, task.number)
        result = await parser.parse(page, self.options)
        await asyncio.to_thread(answers.keep, state, task.number, page, result)
        await self._done(task)

    async def _done(self, task: PageTask, lost: str | None = None) -> None:
        """Count a page that is kept, or note why it is `lost`."""
        work, counts = task.work, self.display.counts
        if lost is not None:
            # The parser got the page alone, as page 1.
            work.state.note(Trouble(task.number, re.sub(r"\bpage 1\b", f"page {task.number}", lost)))
        counts.parsed += lost is None
        counts.failed += lost is not None
        self.display.update()
        work.left -= 1
        if not work.left:
            await self._write(work.state)
        await self._returned()

    async def _write(self, state: DocumentState) -> None:
        """Write a document's outputs; one document at a time, since spreadsheets and Word files are built in memory."""
        written, failed = [], []
        async with self._writing:
            for name in self.formats:
                try:
                    await asyncio.to_thread(outputs.write_all, state, [name])
                    written.append(name)
                except (OSError, UneditablePdf) as error:
                    failed.append(f"{name}: {error}")
        if failed:
            state.note(Trouble(0, f"the results cannot be written ({'; '.join(failed)})"))
        else:
            state.clear(0)
        state.mark_written(written)
