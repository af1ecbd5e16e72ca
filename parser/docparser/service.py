# SPDX-License-Identifier: Apache-2.0
"""Parsing a request: its document page by page through the scheduler, then the answer."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator, Iterator

from docparser import source
from docparser.entry_store import EntryStore, merge_objects
from docparser.errors import (
    DocumentTooLarge,
    InternalError,
    InvalidDocument,
    InvalidRequest,
    PageTimeout,
    ParserError,
    RequestTimeout,
    WorkerLost,
)
from docparser.metrics import Metrics
from docparser.options import PageOptions, answer_options, page_options, restructure_options
from docparser.page_report import DocumentReport
from docparser.scheduler import Flow, PageScheduler
from docparser.schemas import ParseRequest, RestructureRequest
from docparser.settings import Settings
from docparser.source import Document
from docparser.tasks import CountPages, JoinClientPages, JoinPages, ParsedPage, ParsePage
from docparser.url_source import UrlSource

# These concern one page; the others of its document are parsed all the same.
OF_ONE_PAGE = (InvalidDocument, DocumentTooLarge, PageTimeout, WorkerLost, InternalError)


@dataclasses.dataclass(frozen=True)
class PageOutcome:
    """``parsed`` or ``error``; ``index`` counts from 0."""

    index: int
    parsed: ParsedPage | None = None
    error: ParserError | None = None

    @property
    def vlm_failed(self) -> bool:
        """The VLM answered, but broke on all blocks of the page: a job does better to wait and try again."""
        notes = self.parsed.notes if self.parsed else []
        return (
            bool(notes) and not self.parsed.blocks_answered and all(n["kind"] in ("failed", "timeout") for n in notes)
        )


class ParsedDocument:
    """``layoutParsingResults`` and the rest of a result, ready to be sent. Close it."""

    def __init__(self, entries: EntryStore, rest: dict) -> None:
        self._entries = entries
        self._rest = rest

    def body(self, log_id: str, models: dict) -> tuple[int, Iterator[bytes]]:
        """The answer's length in bytes, and its pieces."""
        rest = {**self._rest, "docparser": {"models": models, **self._rest["docparser"]}}
        head = json.dumps({"logId": log_id, "errorCode": 0, "errorMsg": "Success"}, ensure_ascii=False)[:-1]
        before = (head + ', "result": {"layoutParsingResults": [').encode("utf-8", "replace")
        after = ("], " + json.dumps(rest, ensure_ascii=False)[1:] + "}").encode("utf-8", "replace")

        def pieces() -> Iterator[bytes]:
            yield before
            yield from self._entries.joined()
            yield after

        return len(before) + self._entries.size + len(after), pieces()

    def close(self) -> None:
        self._entries.close()


class ParseService:
    def __init__(self, settings: Settings, scheduler: PageScheduler, metrics: Metrics) -> None:
        self._settings = settings
        self._scheduler = scheduler
        self._metrics = metrics
        self._urls = UrlSource(settings)

    async def parse(self, request: ParseRequest, request_id: str) -> ParsedDocument:
        """All of ``POST /layout-parsing``. Raises ParserError, with the page if there are several."""
        limit_s = self._settings.request_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                return await self._parse(request, request_id)
        except TimeoutError:
            raise RequestTimeout(
                f"The document was given up after {limit_s:.0f} s (PARSER_REQUEST_TIMEOUT_S)."
            ) from None

    async def _parse(self, request: ParseRequest, request_id: str) -> ParsedDocument:
        options = page_options(request, visualize_by_default=self._settings.visualize)
        if source.is_url(request.file):
            data = await self._urls.fetch(request.file)
        else:
            data = await asyncio.to_thread(source.decode, request.file)
        format = source.check_type(data, request.fileType)
        flow, store = Flow(), EntryStore(self._settings.spool_dir)
        try:
            with contextlib.ExitStack() as stack:
                spooled = source.spooled(data, format, self._settings.spool_dir)
                document = await asyncio.to_thread(stack.enter_context, spooled)
                del data, spooled
                count = await self.count_pages(document, flow)
                report, frozen = DocumentReport(document.format, count), {}
                outcomes = self.pages(document, range(count), options, flow, request_id)
                async with contextlib.aclosing(outcomes):
                    async for outcome in outcomes:
                        report.add(outcome)
                        if outcome.parsed is not None and options.restructure is not None:
                            frozen[outcome.index] = outcome.parsed.frozen
                        store.put(outcome.index, outcome.parsed.entry if outcome.parsed else EMPTY_ENTRY)
            report.check()
            if frozen:
                await self._join(frozen, options, flow, store)
        except BaseException:
            store.close()
            raise
        return ParsedDocument(store, {"dataInfo": report.data_info(), "docparser": report.as_dict()})

    async def count_pages(self, document: Document, flow: Flow) -> int:
        """Raises InvalidDocument, DocumentTooLarge; also for a file that nobody can open without harm."""
        try:
            return await self._scheduler.submit(CountPages(document), flow)
        except WorkerLost:
            raise InvalidDocument("file: opening it ended two worker processes; it is damaged") from None

    async def pages(
        self, document: Document, indices: range, options: PageOptions, flow: Flow, request_id: str
    ) -> AsyncIterator[PageOutcome]:
        """Each page's outcome as soon as it is there, in no order. What concerns the whole document is raised.

        Closing the iterator, or cancelling who waits for it, ends the pages that are still being worked on; use
        ``contextlib.aclosing`` where the loop's body can raise.
        """

        async def parse(index: int) -> PageOutcome:
            try:
                parsed = await self._scheduler.submit(ParsePage(document, index, options, request_id), flow)
            except OF_ONE_PAGE as exc:
                self._metrics.page("failed")
                return PageOutcome(index, error=exc)
            except ParserError:
                self._metrics.page("failed")
                raise
            except asyncio.CancelledError:
                self._metrics.page("abandoned")
                raise
            self._metrics.page("partial" if parsed.notes else "ok", parsed.seconds)
            return PageOutcome(index, parsed=parsed)

        tasks = [asyncio.create_task(parse(index)) for index in indices]
        try:
            for earliest in asyncio.as_completed(tasks):
                yield await earliest
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _join(self, frozen: dict[int, bytes], options: PageOptions, flow: Flow, store: EntryStore) -> None:
        """PaddleOCR's steps across pages; the pages' texts come out of them."""
        indices = sorted(frozen)
        task = JoinPages([frozen[index] for index in indices], options.answer, options.restructure)
        for index, text in zip(indices, await self._scheduler.submit(task, flow), strict=True):
            store.put(index, merge_objects(text, store.get(index)))

    async def restructure(self, request: RestructureRequest) -> ParsedDocument:
        """All of ``POST /restructure-pages``."""
        if not request.pages:
            raise InvalidRequest("pages: empty; expected the pages of an earlier answer")
        pages = [(page.prunedResult, page.markdownImages or {}) for page in request.pages]
        task = JoinClientPages(pages, answer_options(request, visualize=False), restructure_options(request))
        store = EntryStore(self._settings.spool_dir)
        try:
            for index, entry in enumerate(await self._scheduler.submit(task, Flow())):
                store.put(index, entry)
        except BaseException:
            store.close()
            raise
        return ParsedDocument(store, {"docparser": {}})

    async def close(self) -> None:
        await self._urls.close()


# What stands for a page that could not be parsed, so that pages keep their places.
EMPTY_ENTRY = json.dumps(
    {"prunedResult": {"parsing_res_list": [], "layout_det_res": {"boxes": []}}, "markdown": {"text": "", "images": {}}}
).encode()
