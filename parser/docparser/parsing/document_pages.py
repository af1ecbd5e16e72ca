# SPDX-License-Identifier: Apache-2.0
"""The pages of a document through the scheduler: what each came to. What was given up because it took too long is not
begun again, whoever sends it, as long as the service runs.

A document is known by its content. That is hashed only when something of a document of its size was given up before, so
it costs others nothing.
"""

from __future__ import annotations

import asyncio
import collections
import functools
import hashlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from docparser import traces
from docparser.contract.request_parts import is_bulk
from docparser.contract.schemas import ParseOptions
from docparser.documents.spool import Document
from docparser.errors import DocumentTooSlow, InvalidDocument, PageFailed, ParserError, StepTooSlow, WorkerLost
from docparser.parsing.fair_queue import Flow
from docparser.parsing.metrics import Metrics
from docparser.parsing.result import PageOutcome
from docparser.parsing.scheduler import PageScheduler
from docparser.worker.messages import CountPages, ParsePage, PartOfPage

# Gets the page's index, from 0; where the part begins in the page's Markdown, in characters; its text.
Early = Callable[[int, int, str], None]
Knows = Callable[[], Awaitable[bool]]
REMEMBERED = 1000  # documents
GIVE_UP_AFTER = 3  # pages of one document; then none of its other pages is begun
OPENING = "opening"
Part = int | str  # a page, from 0; or OPENING; or what `with_options` returns
Given = dict[Part, str]  # the error's message


class DocumentPages:
    """Reads pages, and remembers documents that were slow to read. A ``Flow`` takes turns with other flows."""

    def __init__(
        self, scheduler: PageScheduler, metrics: Metrics, small_print: str, text_layer: str, vlm_is_demo: Knows
    ) -> None:
        """``small_print``: PARSER_SMALL_PRINT; ``text_layer``: PARSER_TEXT_LAYER. Where they are auto, the demo's
        weights read in small pieces, and plain text is the page's own."""
        self._scheduler = scheduler
        self._metrics = metrics
        self._small_print, self._text_layer, self._vlm_is_demo = small_print, text_layer, vlm_is_demo
        self._slow_documents = SlowDocuments()

    async def count(self, document: Document, flow: Flow) -> int:
        """Raises InvalidDocument, DocumentTooLarge, DocumentTooSlow; also for a file that ends the processes that open
        it."""
        await self._slow_documents.check(document, OPENING)
        try:
            return await self._scheduler.submit(CountPages(document), flow)
        except DocumentTooSlow as exc:
            await self._slow_documents.note(document, OPENING, exc)
            raise
        except WorkerLost:
            raise InvalidDocument("file: opening it ended two worker processes; it is damaged") from None

    async def read_all(
        self,
        document: Document,
        indices: Sequence[int],
        options: ParseOptions,
        flow: Flow,
        request_id: str,
        early: Early | None,
    ) -> AsyncGenerator[PageOutcome, None]:
        """The outcome of each of the pages ``indices`` (from 0) as soon as it is there, in no order. An error of the
        whole document is raised.

        Closing the iterator cancels the pages that are still being worked on.
        """
        tasks = [asyncio.create_task(self.read(document, index, options, flow, request_id, early)) for index in indices]
        try:
            for earliest in asyncio.as_completed(tasks):
                yield await earliest
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def read(
        self,
        document: Document,
        index: int,
        options: ParseOptions,
        flow: Flow,
        request_id: str,
        early: Early | None = None,
        waited_s: float = 0.0,
    ) -> PageOutcome:
        """One page, counted in the metrics. ``waited_s``: how long before this call. Raises ParserError for what does
        not concern this page alone."""

        def on_part(part: PartOfPage) -> None:
            if early is not None:
                early(index, part.offset, part.text)

        begun = False
        try:
            await self._slow_documents.check(document, index, with_options(index, options))
            begun = True
            with traces.span("page", page=index + 1, request_id=request_id):
                task = await self._task(document, index, options, request_id, early is not None)
                parsed = await self._scheduler.submit(task, flow, on_part)
        except (DocumentTooSlow, StepTooSlow) as exc:
            if begun:  # else it is what was noted before, perhaps with these options alone
                part = index if isinstance(exc, DocumentTooSlow) else with_options(index, options)
                message = await self._slow_documents.note(document, part, exc)
                if message:
                    self._scheduler.give_up(document, DocumentTooSlow(message))
            self._metrics.page("failed")
            return PageOutcome(index, error=exc)
        except PageFailed as exc:
            self._metrics.page("failed")
            return PageOutcome(index, error=exc)
        except ParserError:
            self._metrics.page("failed")
            raise
        except asyncio.CancelledError:
            self._metrics.page("abandoned")
            raise
        self._metrics.page("partial" if parsed.block_notes else "ok", parsed.seconds)
        self._metrics.waited(waited_s + parsed.seconds["queue"], bulk=is_bulk(flow.client))
        return PageOutcome(index, parsed=parsed)

    async def _task(
        self, document: Document, index: int, options: ParseOptions, request_id: str, early: bool
    ) -> ParsePage:
        small_print = self._small_print == "on" or (self._small_print == "auto" and await self._vlm_is_demo())
        text_layer = options.textLayer or self._text_layer
        if text_layer == "auto":
            text_layer = "prefer" if await self._vlm_is_demo() else "off"
        options = options.model_copy(update={"textLayer": text_layer})
        return ParsePage(document, index, options, request_id, early, small_print, traces.carrier())


def with_options(index: int, options: ParseOptions) -> Part:
    """A page of which one step, which depends on the options, took too long."""
    return f"{index} {options}"


class SlowDocuments:
    """What was given up of which documents."""

    def __init__(self) -> None:
        self._given_up: collections.OrderedDict[bytes, Given] = collections.OrderedDict()
        self._sizes: dict[bytes, int] = {}

    async def check(self, document: Document, *parts: Part) -> None:
        """Raises DocumentTooSlow if one of ``parts`` was given up before."""
        if not self._given_up:
            return
        status = _stat(document)
        if status is None or status.st_size not in self._sizes.values():
            return
        given = self._given_up.get(await self._digest(document), {})
        message = next((given[part] for part in (OPENING, *parts) if part in given), None) or self._for_all(given)
        if message:
            raise DocumentTooSlow(message)

    async def note(self, document: Document, part: Part, error: DocumentTooSlow | StepTooSlow) -> str | None:
        """Remember that ``part`` was given up. Returns what to say of the other pages if none is to be begun any
        more."""
        status = _stat(document)
        if status is None:  # its client left meanwhile, and its file with it
            return None
        digest = await self._digest(document)
        given = self._given_up.setdefault(digest, {})
        self._given_up.move_to_end(digest)
        given.setdefault(part, str(error))
        self._sizes[digest] = status.st_size
        while len(self._given_up) > REMEMBERED:
            del self._sizes[self._given_up.popitem(last=False)[0]]
        return self._for_all(given)

    @staticmethod
    def _for_all(given: Given) -> str | None:
        pages = [part for part in given if isinstance(part, int)]
        if len(pages) < GIVE_UP_AFTER:
            return None
        return f"file: not tried, because {len(pages)} pages of this document took too long; {given[pages[0]]}"

    async def _digest(self, document: Document) -> bytes:
        status = _stat(document)
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino) if status else ()
        return await asyncio.to_thread(_digest, document.path, stamp)


def _stat(document: Document) -> os.stat_result | None:
    try:
        return os.stat(document.path)
    except OSError:
        return None


@functools.lru_cache(maxsize=256)
def _digest(path: str, stamp: tuple[int, ...]) -> bytes:
    """SHA-256 of the file, which ``stamp`` tells from others that had its path."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return b""
