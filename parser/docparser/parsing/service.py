# SPDX-License-Identifier: Apache-2.0
"""Parsing a document: its pages through the scheduler, then the result."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import Callable, Sequence

from docparser import errors
from docparser.contract.answers import NotedBlock
from docparser.contract.schemas import ParseOptions
from docparser.contract.tasks import Tasks
from docparser.documents.spool import Document
from docparser.errors import BoundExceeded, InvalidRequest, UnreadableText
from docparser.parsing.document_pages import DocumentPages, Early, Knows
from docparser.parsing.fair_queue import Flow
from docparser.parsing.metrics import Metrics
from docparser.parsing.result import EMPTY_ENTRY, DocumentReport, EntryStore, PageOutcome, ParseResult, merge_objects
from docparser.parsing.scheduler import PageScheduler
from docparser.settings import Settings
from docparser.worker.messages import JoinClientPages, JoinPages, SentHead


class ParseService:
    """``request_id`` in the methods goes to the VLM with each call. A ``Flow`` takes turns with other flows."""

    def __init__(
        self, settings: Settings, scheduler: PageScheduler, metrics: Metrics, tasks: Tasks, vlm_is_demo: Knows
    ) -> None:
        """``tasks`` are those that the VLM was trained to do; ``vlm_is_demo`` says whether it has the demo weights."""
        self._settings = settings
        self._scheduler = scheduler
        self._pages = DocumentPages(scheduler, metrics, settings.small_print, settings.text_layer, vlm_is_demo)
        self._tasks = tasks

    def notes(self, options: ParseOptions) -> list[str]:
        """What a client is told of options without effect. Raises InvalidRequest for a task that the VLM does not know:
        it would answer with something."""
        if refusal := self._tasks.refusal(options):
            raise InvalidRequest(refusal)
        return [*options.notes(), *self._tasks.without_unknown(options)[1]]

    def watches(self, client: str) -> bool:
        """Whether this client has, or had a moment ago, documents that are slow to read."""
        return self._scheduler.watches(client)

    async def parse(
        self,
        document: Document,
        options: ParseOptions,
        request_id: str = "",
        client: str = "",
        counted: Callable[[int], None] = lambda pages: None,
        arrived: Callable[[PageOutcome], None] = lambda outcome: None,
        early: Early | None = None,
        select: Callable[[int], Sequence[int]] = range,
    ) -> ParseResult:
        """All pages. ``client`` takes turns with others. Raises ParserError; the message names the page if there are
        several.

        ``select`` is told how many pages there are, and names those that are read: indices from 0, in order. It raises
        InvalidRequest where it cannot.

        ``counted`` is called in a thread with the number of pages before any is parsed, and may raise. ``arrived`` is
        called with each page as it is read, in no order, before pages are joined; ``early`` with the parts of pages
        that come before their ends, where pages are not joined.
        """
        told = self.notes(options)
        flow, store = Flow(client), EntryStore(self._settings.spool_dir)
        work = self._settled(options)
        try:
            count = await self.count_pages(document, flow)
            selected = select(count)
            await asyncio.to_thread(counted, len(selected))
            report, frozen = DocumentReport(document.format, selected, count), {}
            async with contextlib.aclosing(
                self._pages.read_all(document, selected, work, flow, request_id, early)
            ) as outcomes:
                async for outcome in outcomes:
                    report.add(outcome)
                    if outcome.parsed is not None and outcome.parsed.frozen is not None:
                        frozen[outcome.index] = outcome.parsed.frozen
                    store.put(outcome.index, outcome.parsed.entry if outcome.parsed else EMPTY_ENTRY)
                    arrived(outcome)
            report.check()
            if frozen:
                indices = sorted(frozen)
                texts, notes = await self.join({index: frozen[index] for index in indices}, options, flow)
                for place, note in notes:
                    report.note(indices[place], note)
                for index, text in zip(indices, texts, strict=True):
                    store.put(index, merge_objects(text, store.get(index)))
        except BaseException:
            store.close()
            raise
        said = report.as_dict()
        if told:
            said["notes"] = told
        return ParseResult(store, {"dataInfo": report.data_info(), "docparser": said}, report.tokens)

    async def page(
        self,
        document: Document,
        index: int,
        options: ParseOptions,
        flow: Flow,
        request_id: str = "",
        waited_s: float = 0.0,
    ) -> PageOutcome:
        """One page; ``index`` counts from 0; it has waited for ``waited_s`` already. Raises ParserError for what does
        not concern this page alone.

        With ``restructurePages`` the page has its own text, which that of ``join`` replaces.
        """
        self.notes(options)
        work = self._settled(options)
        outcome = await self._pages.read(document, index, work, flow, request_id, waited_s=waited_s)
        if (parsed := outcome.parsed) is None or parsed.frozen is None:
            return outcome
        (text,), _ = await self.join({index: parsed.frozen}, options, flow)
        return dataclasses.replace(outcome, parsed=dataclasses.replace(parsed, entry=merge_objects(text, parsed.entry)))

    async def count_pages(self, document: Document, flow: Flow) -> int:
        """Raises InvalidDocument, DocumentTooLarge, DocumentTooSlow."""
        return await self._pages.count(document, flow)

    async def join(
        self, frozen: dict[int, dict[str, bytes]], options: ParseOptions, flow: Flow
    ) -> tuple[list[bytes], list[tuple[int, NotedBlock]]]:
        """PaddleOCR's steps across pages (``restructurePages``), over ``ParsedPage.frozen`` of each page by its index,
        in order.

        Returns for each page the JSON object with its text, which belongs into its entry. Where joining exceeds a
        bound, these are the pages as they were read, one by one, and notes say so: each with its page's place. Raises
        ParserError; BoundExceeded or UnreadableText if no page can be read.
        """
        options = self._settled(options)
        try:
            return await self._scheduler.submit(JoinPages(frozen, options), flow), []
        except (BoundExceeded, UnreadableText) as exc:
            notes = [(0, _too_large(f"{exc}; the pages are not joined"))]
        apart = options.model_copy(update={"mergeTables": False, "relevelTitles": False})
        texts, unread = [], 0
        for place, (index, page) in enumerate(frozen.items()):
            try:
                texts += await self._scheduler.submit(JoinPages({index: page}, apart), flow)
            except (BoundExceeded, UnreadableText) as exc:
                unread += 1
                if unread == len(frozen):
                    raise
                texts.append(EMPTY_ENTRY)
                notes.append((place, _too_large(str(exc))))
        return texts, notes

    async def restructure(self, body: bytes, client: str, named: Callable[[str], None]) -> ParseResult:
        """All of ``POST /restructure-pages``, whose ``body`` is read in a child process. ``named`` is told the logId
        that the client gave it."""
        most = self._settings.max_pages
        task = JoinClientPages(body, min(most, body.count(b'"prunedResult"')), most)
        store = EntryStore(self._settings.spool_dir)
        try:
            head, *entries = await self._scheduler.submit(task, Flow(client))
            found = SentHead(**json.loads(head))
            if found.log_id:
                named(found.log_id)
            if found.error is not None:
                raise getattr(errors, found.error)(found.message)
            for index, entry in enumerate(entries):
                store.put(index, entry)
        except BaseException:
            store.close()
            raise
        return ParseResult(store, {"docparser": {"notes": found.notes} if found.notes else {}})

    def _settled(self, options: ParseOptions) -> ParseOptions:
        """What a worker is told: those that the VLM can follow, with the service's default."""
        options = alone(self._tasks.without_unknown(options)[0])
        if options.visualize is None:
            options = options.model_copy(update={"visualize": self._settings.visualize})
        return options


def alone(options: ParseOptions) -> ParseOptions:
    """The options of a request without its document."""
    return ParseOptions.model_construct(**{name: getattr(options, name) for name in ParseOptions.model_fields})


def _too_large(message: str) -> NotedBlock:
    """A note of a page, of no single block."""
    return {"block_id": None, "kind": "too_large", "message": message}
