# SPDX-License-Identifier: Apache-2.0
"""A worker's page: what its reader is asked with, and what the service is told of it. The readers and the children are
simulated; PaddleX's parts run in tests of the service."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from docparser.contract.schemas import ParseOptions, TextLayer
from docparser.documents.page import Page
from docparser.documents.reader import Reading
from docparser.documents.spool import Document
from docparser.errors import Abandoned, BoundExceeded, DocumentTooSlow, UnreadableText
from docparser.page import frozen
from docparser.page.question import read_block
from docparser.page.run import BlockReading, PageCancelled, PageReading, PageRun, PageTask
from docparser.sandbox.pool import Cancelled as ChildCancelled
from docparser.sandbox.pool import JobHandle
from docparser.settings import Settings
from docparser.small_print.reading import SMALL_PRINT
from docparser.vlm.client import Reply
from docparser.worker import page_work, sent_pages, text_jobs
from docparser.worker.baton import Baton
from docparser.worker.messages import CountPages, JoinClientPages, JoinPages, ParsePage, PartOfPage, RunTask
from docparser.worker.page_work import PageWork
from docparser.worker.process import HolderSlot, SharedSlot

DOCUMENT = Document("page.pdf", "PDF")
PIXELS = np.zeros((2, 3, 3), np.uint8)
FROZEN: dict[str, Any] = {"blocks": [], "imgs_in_doc": []}
PAGE = b'{"prunedResult": {}}'
READ_NOTE, PAGE_NOTE = {"kind": "damaged", "message": "read"}, {"kind": "rotated", "message": "page"}


class Parts:
    """What `PageWork` calls: the documents' reader, the pages' reader, and the children."""

    layout_engine, layout_server, vlm = "paddle", None, SimpleNamespace(client="client")

    def __init__(self) -> None:
        self.run_of: PageRun | None = None
        self.task_of: PageTask | None = None
        self.readings: list[tuple[Any, ...]] = []
        self.calls: list[object] = []  # by which the jobs are ended
        self.jobs: list[tuple[str, Any, str, int]] = []
        self.outputs: dict[str, bytes | Exception] = {"read": b'{"prunedResult":{},"markdown":{"text":"a"}}'}
        self.while_read: Callable[[PageRun], object] = lambda run: None
        self.work: Any = None

    def warm_up(self) -> None:
        """Nothing is cold."""

    def count_pages(self, document: Document, reading: Reading) -> int:
        self.readings.append((document, reading.apart))
        reading.on_slow()
        assert not reading.cancelled()
        self.work.cancel(1)
        assert reading.cancelled()
        return 5

    def read_page(self, document: Document, index: int, reading: Reading, *, own_text: bool) -> Page:
        self.readings.append((document, index, own_text))
        return Page(PIXELS, [READ_NOTE], "characters" if own_text else None)  # type: ignore[list-item, arg-type]  # only passed on

    def read(self, task: PageTask, run: PageRun) -> PageReading:
        assert task.picture is PIXELS and self.work.pixels == 6
        self.run_of, self.task_of = run, task
        self.while_read(run)
        drawn: dict[str, Any] = {"layout_det_res": PIXELS}
        return PageReading(FROZEN, [], [PAGE_NOTE], lambda: drawn, 4, (7, 8), 0.5, 0.25, PIXELS)  # type: ignore[list-item]  # only passed on

    def run(self, job: str, task: Any, what: str, *, pages: int = 1, call: object = None) -> bytes:
        self.jobs.append((job, task, what, pages))
        self.calls.append(call)
        output = self.outputs[job]
        if isinstance(output, Exception):
            raise output
        return output


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Parts()
    monkeypatch.setattr(page_work, "DocumentReader", lambda limits: made)
    monkeypatch.setattr(page_work, "page_reader", lambda settings: made)
    monkeypatch.setattr(page_work, "OwnText", lambda characters, picture: (characters, picture is PIXELS))
    made.work = PageWork(Settings(), Baton(HolderSlot(SharedSlot())), made)  # type: ignore[arg-type]  # simulated
    return made


def task(*, early: bool = False, small_print: bool = False, text_layer: TextLayer = "off", **options: Any) -> ParsePage:
    settled = ParseOptions(**{"visualize": False, **options}, textLayer=text_layer)
    return ParsePage(DOCUMENT, 4, settled, "request", early, small_print)


def do(parts: Any, what: Any, told: list[object] | None = None) -> Any:
    told = [] if told is None else told
    parts.work.expect(1)
    answer = parts.work.do(RunTask(1, what), lambda: told.append("free"), told.append)
    assert parts.work._runs == {} and parts.work._baton.idle
    return answer


def test_the_answer_says_what_the_page_is(parts: Any):
    answer = do(parts, task())
    assert (answer.width, answer.height, answer.blocks_answered, answer.tokens) == (3, 2, 4, (7, 8))
    assert answer.page_notes == [READ_NOTE, PAGE_NOTE] and answer.block_notes == [] and answer.frozen is None
    assert set(answer.seconds) == {"read", "layout", "vlm", "blocks", "write"}
    assert (answer.seconds["layout"], answer.seconds["vlm"], answer.seconds["blocks"]) == (0.25, 0.5, 0.0)
    assert json.loads(answer.entry) == {"prunedResult": {}, "markdown": {"text": "a", "images": {}}}
    assert parts.work.pixels == 0 and parts.task_of.request_id == "request-p5"
    assert [(job, what) for job, _, what, _ in parts.jobs] == [("read", "file: page 5: reading the VLM's answers")]


@pytest.mark.parametrize(("engine", "going_on"), [("openvino", {1}), ("", {1, 2})])
def test_a_page_goes_on_when_the_vlm_answers(parts: Any, engine: str, going_on: set[int]):
    """Where a page is one call, the others of the worker wait for their turns."""

    def answer(run: PageRun) -> None:
        call: Future[Reply] = Future()
        run.calling(call)
        call.set_result(Reply("a"))

    parts.layout_engine, parts.while_read = engine, answer
    parts.work.expect(2)
    parts.work.expect(1)
    parts.work.do(RunTask(1, task()), lambda: None, [].append)
    assert (parts.work.take_going_on(), parts.work.take_going_on()) == (going_on, set())


def test_lines_of_crops_are_as_high_as_the_setting_says_but_not_of_small_print(parts: Any):
    parts.work = PageWork(Settings(line_pixels=24), Baton(HolderSlot(SharedSlot())), parts)
    do(parts, task())
    reading = parts.task_of.reading.block
    assert reading.func is read_block and reading.keywords == {"line_pixels": 24}
    do(parts, task(small_print=True))
    assert parts.task_of.reading == SMALL_PRINT


@pytest.mark.parametrize("small_print", [False, True])
@pytest.mark.parametrize("text_layer", ["off", "prefer"])
@pytest.mark.parametrize("places", [None, "cells"])
def test_what_is_asked_for_reaches_the_page(parts: Any, small_print: bool, text_layer: TextLayer, places: Any):
    do(parts, task(small_print=small_print, text_layer=text_layer, places=places))
    asked = parts.task_of
    own = text_layer != "off"
    assert parts.readings == [(DOCUMENT, 4, own)]
    assert (asked.own_text, asked.options.textLayer) == ((("characters", True), "prefer") if own else (None, "off"))
    assert asked.reading == (SMALL_PRINT if small_print else BlockReading())
    assert (asked.options.places, parts.run_of.listener) == (places, None)


def test_a_page_that_says_nothing_has_no_text_of_its_own(parts: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page_work, "OwnText", lambda characters, picture: "")
    do(parts, task(text_layer="check"))
    assert parts.task_of.own_text is None


def test_only_pages_that_are_not_joined_tell_their_parts_early(parts: Any):
    told: list[object] = []
    do(parts, task(early=True, restructurePages=True))
    assert parts.run_of.listener is None
    do(parts, task(early=True), told)
    parts.outputs["part"] = "Ä".encode()
    listener: Any = parts.run_of.listener
    told.clear()
    listener._tell(3, listener._write("part of the page"))
    assert told == [PartOfPage(1, 3, "Ä")] and parts.jobs[-1][:3] == (
        "part",
        "part of the page",
        "file: page 5: reading the VLM's first answers",
    )


def test_a_page_to_be_joined_is_frozen_and_has_its_pictures(parts: Any):
    answer = do(parts, task(restructurePages=True, visualize=True))
    assert parts.jobs == [] and list(answer.frozen) == [frozen.NAME]
    assert list(json.loads(answer.entry)) == ["inputImage", "outputImages"]


def test_further_files_come_beside_the_text_and_their_failure_is_a_note(parts: Any):
    asked: dict[str, Any] = {"outputFormats": ["docx"], "visualize": True, "returnMarkdownImages": False}
    parts.outputs |= {"word": b'{"content":"w"}', "draw": b'{"spotting_res":"s"}'}
    entry = json.loads(do(parts, task(**asked)).entry)
    assert entry["exports"] == {"docx": {"content": "w"}} and "images" not in entry["markdown"]
    assert list(entry["outputImages"]) == ["layout_det_res", "spotting_res"] and entry["inputImage"]
    assert len(parts.calls) == 3 and set(parts.calls) == {parts.run_of.child}, "they end with the page"
    parts.outputs |= {"word": BoundExceeded("too much"), "draw": UnreadableText("no text")}
    answer = do(parts, task(**asked))
    assert [(note["block_id"], note["kind"], note["message"]) for note in answer.block_notes] == [
        (None, "too_large", "too much"),
        (None, "too_large", "no text"),
    ]
    entry = json.loads(answer.entry)
    assert "exports" not in entry and list(entry["outputImages"]) == ["layout_det_res"]


@pytest.mark.parametrize(
    ("error", "cancelled", "told"),
    [
        (PageCancelled(), False, Abandoned),
        (OSError("the file is gone"), True, Abandoned),
        (OSError("a fault"), False, OSError),
        (DocumentTooSlow("slow"), True, DocumentTooSlow),
    ],
)
def test_what_fails_for_a_page_that_nobody_waits_for_is_no_error(
    parts: Any, error: Exception, cancelled: bool, told: type[Exception]
):
    def fail(run: PageRun) -> None:
        if cancelled:
            parts.work.cancel(1)
        parts.work.cancel(2)  # of another task: nothing
        assert run.cancelled == cancelled
        raise error

    parts.while_read = fail
    with pytest.raises(told):
        do(parts, task())
    assert parts.work.pixels == 0 and parts.work._runs == {} and parts.work._baton.idle


@pytest.mark.parametrize("what", [task(), CountPages(DOCUMENT), JoinClientPages(b"body", 1, 9)])
def test_a_task_can_be_cancelled_before_it_begins(parts: Any, what: Any):
    def count_pages(document: Document, reading: Reading) -> int:
        assert reading.cancelled()
        raise Abandoned("cancelled")

    def run(*arguments: Any, call: JobHandle, **options: Any) -> bytes:
        assert call.cancelled
        raise ChildCancelled

    parts.count_pages, parts.run = count_pages, run
    parts.work.expect(1)
    parts.work.cancel(1)
    with pytest.raises(Abandoned):
        parts.work.do(RunTask(1, what), lambda: None, lambda event: None)
    parts.work.cancel(1)  # it has ended: nothing
    assert parts.work._runs == {}


def test_pages_are_counted_with_the_baton_and_can_be_cancelled(parts: Any):
    told: list[Any] = []
    assert do(parts, CountPages(DOCUMENT), told) == 5
    assert parts.readings == [(DOCUMENT, False)] and [type(item).__name__ for item in told] == [
        "ReadingIsSlow",
        "str",
        "ReadingEnded",
    ]


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        (b'{"logId": "mine", "pages": [%s, %s], "odd": 1}' % (PAGE, PAGE), None, ""),
        (b'{"logId": "mine", "pages": []}', "InvalidRequest", "pages: empty"),
        (
            b'{"logId": "mine", "pages": [%s]}' % b",".join([PAGE] * 3),
            "DocumentTooLarge",
            "pages: 3; at",
        ),
        (b'{"logId": "mine", "pages": [{}]}', "InvalidRequest", "prunedResult"),
        (b'{"logId": "mine", "pages": ' + b"[" * 99 + b"]" * 99 + b"}", "BodyTooComplex", "body: nested deeper"),
        (b'{"pages": [1,', "InvalidRequest", "JSON"),
    ],
)
def test_the_body_of_pages_that_a_client_sent(body: bytes, error: str | None, words: str):
    head, entries = sent_pages.answer(body, 2, lambda request: [{"page": page} for page in range(len(request.pages))])  # type: ignore[typeddict-item, typeddict-unknown-key]  # only counted
    assert head.error == error and words in head.message
    assert len(entries) == (2 if error is None else 0) and bool(head.notes) is (error is None)
    assert head.log_id == (None if error == "BodyTooComplex" or words == "JSON" else "mine")


def test_entries_are_lines_and_say_their_headings():
    sink = io.BytesIO()
    text_jobs._write(sink, [{"a": "\u00e4"}, {"b": 1}])
    assert sink.getvalue().decode() == '{"a":"\u00e4"}\n{"b":1}'
    said: list[Any] = [("doc_title", "Wells"), ("text", "x"), ("paragraph_title", " "), ("paragraph_title", None)]
    second: list[Any] = [("paragraph_title", "1 Why")]
    pages = [
        [SimpleNamespace(label=label, content=text, bbox=(0, 0, 9, 9), page_index=at) for label, text in blocks]
        for at, blocks in enumerate([said, second])
    ]
    results = [{"width": 100, "height": 140, "parsing_res_list": blocks} for blocks in pages]
    assert text_jobs.outlines(results) == [{0: 1}, {0: 2}]


def test_joining_is_bounded_by_the_number_of_pages_and_leaves_the_cpu(parts: Any):
    options, told = ParseOptions(prettifyMarkdown=False, mergeTables=False), list[object]()
    parts.outputs |= {"join": b"{}\n{}\n{}", "join_sent": b"{}"}
    assert do(parts, JoinPages({0: {}, 1: {}, 4: {}}, options), told) == [b"{}"] * 3
    assert do(parts, JoinClientPages(b"body", 7, 9)) == [b"{}"] and told == ["free"]
    (join, pages, _, count), (sent, body, _, sent_pages) = parts.jobs
    side = Settings().max_output_image_side
    assert (join, count, pages.options, pages.max_side) == ("join", 3, options, side)
    assert (sent, sent_pages, body.body, body.most, body.max_side) == ("join_sent", 7, b"body", 9, side)
    parts.outputs["join"] = ChildCancelled()
    with pytest.raises(Abandoned, match="these pages"):
        do(parts, JoinPages({0: {}}, options))
