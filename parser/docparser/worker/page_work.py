# SPDX-License-Identifier: Apache-2.0
"""The tasks of a worker. Imported in worker processes only: it loads PaddleX and its models."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import logging
import os
import pickle
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

from docparser import traces
from docparser.contract.answers import NotedBlock
from docparser.documents.page import DocumentLimits, Page
from docparser.documents.reader import DocumentReader
from docparser.errors import Abandoned, BoundExceeded, ParserError, UnreadableText
from docparser.layout.served import LayoutServer
from docparser.own_text.page_text import OwnText
from docparser.page.early_text import EarlyText
from docparser.page.entry import encoded, pictures
from docparser.page.frozen import pictures_of, stored, without_pictures
from docparser.page.question import read_block
from docparser.page.run import BlockReading, PageCancelled, PageReader, PageReading, PageRun, PageTask
from docparser.sandbox.pool import Cancelled as ChildCancelled
from docparser.sandbox.pool import ChildPool, JobHandle
from docparser.sandbox.process import Bounds, Reach, Zygote
from docparser.settings import Settings
from docparser.small_print.reading import SMALL_PRINT
from docparser.vlm.client import VlmClient
from docparser.weights import reads_whole_pages
from docparser.worker.baton import Baton, Hold
from docparser.worker.messages import CountPages, JoinClientPages, JoinPages, ParsedPage, ParsePage, PartOfPage, RunTask
from docparser.worker.text_jobs import JOBS, JoinFrozen, JoinSent, ReadPage, to_json

log = logging.getLogger(__name__)

WRITERS = ("word", "join", "join_sent")  # jobs that may make a Word file, for which PaddleX wants a folder
QUICK, MOST = 2, 6  # tasks at a time; see ChildPool


class TextChildren:
    """Make it while the process has one thread, and no secret yet. Threads may share it."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._forked: Zygote | None = Zygote.fork(JOBS)
        self._pool = ChildPool(self._zygote, quick=QUICK, most=MOST)
        self._pool.prepare()

    def _zygote(self) -> Zygote:
        if self._forked is None:
            log.error("the process that makes children ended; the worker ends too, for only a new one can fork it")
            os._exit(1)
        zygote, self._forked = self._forked, None
        return zygote

    def run(self, job: str, task: Any, what: str, *, pages: int = 1, call: JobHandle | None = None) -> bytes:
        """The output of a job of ``text_jobs``. Raises what ``ChildPool.run`` raises."""
        with contextlib.ExitStack() as stack:
            source, sink = (stack.enter_context(open(os.memfd_create(job), "w+b")) for _ in range(2))
            pickle.dump(task, source, protocol=pickle.HIGHEST_PROTOCOL)
            source.seek(0)
            reach = None
            if job in WRITERS:
                reach = Reach(folder=stack.enter_context(tempfile.TemporaryDirectory(prefix="docparser-")))
            bounds = self._bounds.for_pages(pages)
            self._pool.run(job, {}, (source.fileno(), sink.fileno()), bounds, what, call, reach)
            sink.seek(0)
            return sink.read()


def page_reader(settings: Settings) -> PageReader:
    """The one that the VLM wants. Loads its models. Raises NotReady."""
    if reads_whole_pages(settings):
        from docparser.whole_page import WholePageReader

        return WholePageReader(settings)
    from docparser.page.loop import PageLoop  # not at the top: it loads Paddle

    return PageLoop(settings)


class PageWork:
    """Performs tasks. Many threads call ``do``; they take turns with the baton.

    What computes over texts of the VLM or of a client runs in ``children``, without the baton.
    """

    def __init__(self, settings: Settings, baton: Baton, children: TextChildren) -> None:
        self._children = children
        self._max_side = settings.max_output_image_side
        self._reader = DocumentReader(DocumentLimits.of(settings))  # starts while the models are loaded
        self._pages = page_reader(settings)
        self._pages.warm_up()
        self._usual = BlockReading()
        if settings.line_pixels:
            self._usual = BlockReading(functools.partial(read_block, line_pixels=settings.line_pixels))
        self._baton = baton
        self._runs: dict[int, PageRun] = {}  # of all tasks that have not ended: those of no page can be cancelled, too
        self._lock = threading.Lock()
        self.pixels = 0  # of all pages in memory
        self._going_on: set[int] = set()

    @property
    def layout_engine(self) -> str:
        """openvino or paddle; empty without a layout model."""
        return self._pages.layout_engine

    @property
    def layout_server(self) -> LayoutServer | None:
        return self._pages.layout_server

    @property
    def vlm(self) -> VlmClient:
        return self._pages.vlm.client

    def expect(self, number: int) -> None:
        """``do`` will get this task; from now on it can be cancelled."""
        self._runs[number] = PageRun(on_answer=lambda: self._goes_on(number))

    def cancel(self, number: int) -> None:
        if (run := self._runs.get(number)) is not None:
            run.cancel()

    def do(self, asked: RunTask, on_waiting: Callable[[], None], report: Callable[[object], None]) -> Any:
        """The answer to a task that was expected; ``on_waiting`` is called whenever the CPU becomes free before the
        answer is there, and ``report`` gets ReadingIsSlow and ReadingEnded.

        Raises ParserError, Abandoned if the task was cancelled.
        """
        number, task = asked.number, asked.task
        run = self._runs[number]
        hold = Hold(self._baton, asked, on_waiting, report)
        try:
            if isinstance(task, ParsePage):
                if task.early and not task.options.restructurePages:
                    run.listener = self._early(number, task, run, report)
                return self._do_page(task, run, hold)
            if isinstance(task, CountPages):
                return self._count_pages(task, run, hold)
            on_waiting()
            return self._join(task, run)
        finally:
            del self._runs[number]

    def _count_pages(self, task: CountPages, run: PageRun, hold: Hold) -> int:
        with hold:
            return hold.read(lambda reading: self._reader.count_pages(task.document, reading), lambda: run.cancelled)

    def _do_page(self, task: ParsePage, run: PageRun, hold: Hold) -> ParsedPage:
        run.without_cpu = hold.lent
        try:
            with traces.span("worker", task.trace), hold:
                run.check()
                return self._parse_page(task, run, hold)
        except ParserError:
            raise
        except Exception as exc:  # of PaddleX, too: when the request has ended, the document's file is gone
            if isinstance(exc, PageCancelled) or run.cancelled:
                raise Abandoned("Nobody waits for this page any more.") from None
            raise

    def _parse_page(self, task: ParsePage, run: PageRun, hold: Hold) -> ParsedPage:
        clock = _Clock()
        own_text = task.options.textLayer != "off"
        with traces.span("render"):
            read = hold.read(
                lambda how: self._reader.read_page(task.document, task.index, how, own_text=own_text),
                lambda: run.cancelled,
            )
        image = read.pixels
        clock.lap("read")
        run.check()
        height, width = image.shape[:2]
        self._count(width * height)
        try:
            page = self._pages.read(_page_task(task, read, SMALL_PRINT if task.small_print else self._usual), run)
            clock.lap("parse")
            with traces.span("write"):
                entry = pictures(page.drawn(), image, max_side=self._max_side) if task.options.visualize else {}
                frozen = None
                if not task.options.restructurePages:
                    data = self._entry(task, page, entry, run)
                else:
                    frozen = stored(page.frozen)
                    data = to_json(entry)
            clock.lap("write")
        finally:
            self._count(-width * height)
        parse_s = clock.seconds.pop("parse")
        page_notes = read.notes + page.page_notes
        blocks_s = max(0.0, parse_s - page.layout_s - page.waited_s)
        clock.seconds |= {"layout": page.layout_s, "vlm": page.waited_s, "blocks": blocks_s}
        return ParsedPage(
            data, width, height, page.answered, page.block_notes, clock.seconds, frozen, page.tokens, page_notes
        )

    def _early(self, number: int, task: ParsePage, run: PageRun, report: Callable[[object], None]) -> EarlyText:
        what = f"file: page {task.index + 1}: reading the VLM's first answers"
        return EarlyText(
            task.options,
            lambda part: self._children.run("part", part, what, call=run.child).decode(),
            lambda offset, text: report(PartOfPage(number, offset, text)),
        )

    def _goes_on(self, number: int) -> None:
        """The VLM has answered for a block of the task. Where a page is one call, the others wait for their turns, and
        go on, too: the call itself ends after PARSER_PAGE_TIMEOUT_S."""
        with self._lock:
            self._going_on.update([number] if self._pages.layout_engine else list(self._runs))

    def take_going_on(self) -> frozenset[int]:
        """The tasks that went on since the last call of this."""
        with self._lock:
            taken, self._going_on = frozenset(self._going_on), set()
        return taken

    def _count(self, pixels: int) -> None:
        with self._lock:
            self.pixels += pixels

    def _entry(self, task: ParsePage, read: PageReading, entry: dict, run: PageRun) -> bytes:
        """The page's entry, whose pictures are in ``entry``. What is too large of it, but for its text, is noted."""
        options, number = task.options, task.index + 1
        images = encoded(pictures_of(read.frozen), self._max_side) if options.returnMarkdownImages else None
        page = ReadPage(without_pictures(read.frozen), number, options, self._max_side)
        name = f"file: page {number}"
        further = {}
        with run.without_cpu():
            text = self._children.run("read", page, f"{name}: reading the VLM's answers", call=run.child)
            if options.wants_word:
                whole = dataclasses.replace(page, frozen=read.frozen)
                if file := self._further("word", whole, f"{name}: outputFormats: docx", read.block_notes, run):
                    further["exports"] = {"docx": file}
            if options.visualize and read.spotted_on is not None:
                page = dataclasses.replace(page, drawn_on=read.spotted_on)
                drawn = self._further("draw", page, f"{name}: visualize: spotted texts", read.block_notes, run)
                further["outputImages"] = entry.get("outputImages", {}) | (drawn or {})
        if images is not None:
            text = text[:-2] + b',"images":' + to_json(images) + b"}}"
        rest = entry | further
        return text[:-1] + b"," + to_json(rest)[1:] if rest else text

    def _further(self, job: str, page: ReadPage, what: str, notes: list[NotedBlock], run: PageRun) -> dict | None:
        try:
            return json.loads(self._children.run(job, page, what, call=run.child))
        except (BoundExceeded, UnreadableText) as exc:
            notes.append({"block_id": None, "kind": "too_large", "message": str(exc)})
            return None

    def _join(self, task: JoinPages | JoinClientPages, run: PageRun) -> list[bytes]:
        job: JoinFrozen | JoinSent
        if isinstance(task, JoinPages):
            name, count = "join", len(task.frozen)
            job = JoinFrozen(task.frozen, task.options, self._max_side)
        else:
            name, count = "join_sent", task.pages
            job = JoinSent(task.body, task.most, self._max_side)
        try:
            return self._children.run(name, job, "pages: joining them", pages=count, call=run.child).split(b"\n")
        except ChildCancelled:
            raise Abandoned("Nobody waits for these pages any more.") from None


def _page_task(task: ParsePage, read: Page, reading: BlockReading) -> PageTask:
    own = None if read.characters is None else OwnText(read.characters, read.pixels)
    return PageTask(
        read.pixels,
        task.options,
        reading,
        own or None,  # an empty one is none
        f"{task.request_id}-p{task.index + 1}",
    )


class _Clock:
    def __init__(self) -> None:
        self._last = time.monotonic()
        self.seconds: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        now = time.monotonic()
        self.seconds[stage] = now - self._last
        self._last = now
