# SPDX-License-Identifier: Apache-2.0
"""The outcomes of pages become one answer."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from docparser import errors
from docparser.contract.answers import ModelsInUse, Note, NotedBlock
from docparser.errors import InvalidDocument, InvalidRequest, PageTimeout, SpoolFull, VlmUnavailable
from docparser.http.answers import sent
from docparser.jobs.pages import pack
from docparser.jobs.result import Results
from docparser.jobs.storage.states import JobState, Step, StepState
from docparser.parsing import result as results
from docparser.parsing.result import EMPTY_ENTRY, DocumentReport, EntryStore, PageOutcome, ParseResult, merge_objects
from docparser.worker.messages import ParsedPage
from tests.support.full_disk import full_disk


def parsed(
    index: int, answered: int = 3, block_notes: tuple[NotedBlock, ...] = (), page_notes: tuple[Note, ...] = ()
) -> PageOutcome:
    page = ParsedPage(b"{}", 100 + index, 200, answered, list(block_notes), {}, page_notes=list(page_notes))
    return PageOutcome(index, parsed=page)


REFUSED: NotedBlock = {"block_id": 1, "kind": "refused", "message": "aspect ratio"}
FAILED: NotedBlock = {"block_id": 2, "kind": "failed", "message": "engine dead"}
BAD = PageOutcome(0, error=InvalidDocument("bad"))
BLANK: Note = {"kind": "blank", "message": "one tone all over"}


class TestReport:
    def test_a_whole_document_has_nothing_to_report(self):
        report = DocumentReport("PDF", range(2))
        report.add(parsed(1))
        report.add(parsed(0))
        report.check()
        assert report.as_dict() == {"partial": False, "pages": []}
        sizes = [{"width": 100, "height": 200}, {"width": 101, "height": 200}]
        assert report.data_info() == {"type": "pdf", "numPages": 2, "pages": sizes}

    def test_what_a_page_is_like_is_told_and_makes_nothing_partial(self):
        report = DocumentReport("PDF", range(2))
        report.add(parsed(0, answered=0))
        report.add(parsed(1, answered=0, page_notes=(BLANK,)))
        report.check()
        assert report.as_dict() == {"partial": False, "pages": [{"page": 2, "notes": [BLANK]}]}
        assert pack(parsed(1, page_notes=(BLANK,)), 2, {})[0]["page_notes"] == [BLANK], "jobs keep it"

    def test_pages_and_blocks_that_are_missing_are_named(self):
        report = DocumentReport("TIFF", range(3))
        report.add(parsed(0, block_notes=(REFUSED,)))
        report.add(PageOutcome(2, error=PageTimeout("too slow")))
        report.add(parsed(1))
        report.check()
        error = {"kind": "timeout", "message": "too slow"}
        pages = [{"page": 1, "blocks": [REFUSED]}, {"page": 3, "error": error}]
        assert report.as_dict() == {"partial": True, "pages": pages}
        assert report.data_info()["pages"][2] == {"width": 0, "height": 0}

    def test_an_image_has_its_own_form(self):
        report = DocumentReport("PNG", range(1))
        report.add(parsed(0))
        assert report.data_info() == {"type": "image", "width": 100, "height": 200}

    @pytest.mark.parametrize(
        ("outcomes", "error", "words"),
        [
            ([BAD, PageOutcome(1, error=PageTimeout("slow"))], InvalidDocument, "^page 1: bad"),
            ([BAD, parsed(1, 0, (REFUSED,))], InvalidDocument, "^page 1: bad"),
            ([parsed(0, 0, (REFUSED,)), parsed(1, 0, (REFUSED,))], InvalidRequest, "aspect ratio"),
            ([parsed(0, 0, (REFUSED, FAILED)), parsed(1, 0)], VlmUnavailable, "failed on every block"),
            ([BAD, parsed(1, 0, (FAILED,))], VlmUnavailable, "failed on every block"),
        ],
    )
    def test_nothing_read_is_no_answer(self, outcomes, error, words):
        report = DocumentReport("PDF", range(2))
        for outcome in outcomes:
            report.add(outcome)
        with pytest.raises(error, match=words):
            report.check()

    @pytest.mark.parametrize(
        ("indices", "pages", "said"),
        [([0], 1, "bad"), ([0], 2, "page 1: bad"), ([4], 9, "page 5: bad"), ([4, 7], 9, "page 5: bad")],
    )
    def test_an_error_names_the_page_as_the_document_counts_it(self, indices, pages, said):
        report = DocumentReport("PDF", indices, pages)
        for index in indices:
            report.add(PageOutcome(index, error=InvalidDocument("bad")))
        with pytest.raises(InvalidDocument) as caught:
            report.check()
        assert str(caught.value) == said

    @pytest.mark.parametrize("bad", [BAD, parsed(0, 0, (REFUSED,))])
    def test_a_bad_page_costs_no_page_of_pictures(self, bad):
        report = DocumentReport("PDF", range(2))
        report.add(bad)
        report.add(parsed(1, answered=0))
        report.check()
        assert report.partial

    def test_an_empty_page_is_one(self):
        report = DocumentReport("PNG", range(1))
        report.add(parsed(0, answered=0))
        report.check()


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ({"block_notes": [FAILED], "page_notes": [BLANK]}, {"blocks": [FAILED], "notes": [BLANK]}),
        ({"block_notes": [], "page_notes": [BLANK]}, {"notes": [BLANK]}),
        ({"block_notes": [FAILED], "page_notes": []}, {"blocks": [FAILED]}),
    ],
)
def test_a_stored_page_of_a_job_says_its_notes(kept, said):
    files: Any = SimpleNamespace(page=lambda *place: {"entry": {}, "models": {}, **kept})
    job: Any = SimpleNamespace(id="j", state=JobState.DONE)
    step = Step(7, StepState.DONE, 1, None, None, 100, 200, folder="f", sha256="", changed=1)
    damage: Any = None
    models: Any = {}
    page, _ = Results(files, damage).page(job, step, "", models)
    assert page["docparser"] == {"models": {}, "partial": "blocks" in said, "pages": [{"page": 7, **said}]}


@pytest.mark.parametrize(
    ("answered", "notes", "some", "every"),
    [(0, (FAILED,), True, True), (1, (FAILED,), True, False), (0, (FAILED, REFUSED), True, False),
     (0, (REFUSED,), False, False), (0, (), False, False)],
)  # fmt: skip
def test_whether_the_vlm_failed_on_a_page(answered: int, notes: Any, some: bool, every: bool):
    outcome = parsed(0, answered, notes)
    assert (outcome.vlm_failed_on_some_block, outcome.vlm_failure is not None) == (some, every)
    failed = PageOutcome(0, error=PageTimeout("slow"))
    assert not failed.vlm_failed_on_some_block and failed.vlm_failure is None


@pytest.mark.parametrize(
    ("format", "sizes", "document_pages", "kind"),
    [
        ("PDF", 1, 1, "pdf"),
        ("TIFF", 2, 1, "tiff"),
        ("TIFF", 1, 2, "tiff"),
        ("TIFF", 1, 1, "image"),
        ("PNG", 0, 1, "image"),
    ],
)
def test_what_is_said_of_the_document(format: str, sizes: int, document_pages: int, kind: str):
    info: Any = results.info_of(format, [{"width": 3, "height": 4}] * sizes, document_pages)
    one = {"width": 3 * sizes, "height": 4 * sizes} if kind == "image" else {"numPages": sizes}
    assert info["type"] == kind and one.items() <= info.items()


class TestStore:
    def test_entries_come_back_in_order(self, tmp_path, monkeypatch):
        monkeypatch.setattr(results, "IN_MEMORY", 50)
        monkeypatch.setattr(results, "CHUNK", 7)
        store = EntryStore(tmp_path)
        entries = {index: json.dumps({"page": index, "text": "x" * index}).encode() for index in range(20)}
        for index in (3, 19, 0, *range(4, 19), 2, 1):
            store.put(index, entries[index])
        assert store.get(7) == entries[7]
        joined = b"".join(store.joined())
        assert json.loads(b"[" + joined + b"]") == [json.loads(entries[index]) for index in range(20)]
        assert store.size == len(joined)
        store.close()
        assert not list(tmp_path.iterdir())

    def test_an_entry_can_be_replaced(self, tmp_path):
        store = EntryStore(tmp_path)
        store.put(0, b"{}")
        store.put(0, b'{"a": 1}')
        assert b"".join(store.joined()) == b'{"a": 1}' and store.size == 8

    def test_a_full_disk_is_named_and_closing_says_nothing_else(self, tmp_path, monkeypatch):
        monkeypatch.setattr(results, "IN_MEMORY", 50)
        store = EntryStore(tmp_path)
        with full_disk(1024):
            with pytest.raises(SpoolFull, match="cannot take the result"):
                store.put(0, bytes(3000))
            store.close()
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(("first", "second"), [({}, {}), ({"a": 1}, {}), ({}, {"b": [2]}), ({"a": "}"}, {"b": 2})])
    def test_objects_are_merged(self, first, second):
        merged = merge_objects(json.dumps(first).encode(), json.dumps(second).encode())
        assert json.loads(merged) == first | second


def test_the_body_is_as_long_as_it_says(tmp_path):
    store = EntryStore(tmp_path)
    store.put(1, EMPTY_ENTRY)
    store.put(0, '{"markdown": {"text": "ü"}}'.encode())
    document = ParseResult(store, {"dataInfo": {"type": "pdf"}, "docparser": {"partial": True, "pages": []}})
    models: ModelsInUse = {"layout": {}, "vlm": {"model": "x", "demo": True}}
    length, pieces = document.body("ä", models)
    body = b"".join(pieces)
    assert len(body) == length
    answer = json.loads(body)
    assert (answer["errorCode"], answer["errorMsg"]) == (0, "Success")
    assert answer["logId"] == "ä" and len(answer["result"]["layoutParsingResults"]) == 2
    assert answer["result"]["docparser"] == {"models": models, "partial": True, "pages": []}
    document.close()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("WorkerLost", "worker_lost"), ("StorageDamaged", "damaged"), ("VlmUnavailable", "failed"),
     ("StorageAway", "failed"), ("kind_of", "failed"), ("Gone", "failed"), (None, "failed")],
)  # fmt: skip
def test_what_a_failed_page_of_a_job_is_called(name: str | None, kind: str):
    """By the error's name, which an older release may have stored."""
    assert errors.kind_of(name) == kind


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_what_an_answer_is_read_from_is_closed_whenever_the_client_leaves(taken: int):
    """Also before its first piece: ``taken`` messages are sent of three (head, content, end)."""
    output, messages = io.BytesIO(b"content"), list[Message]()

    async def send(message: Message) -> None:
        if len(messages) == taken:
            raise OSError("the client has left")
        messages.append(message)

    async def receive() -> Message:
        raise AssertionError("nobody asks")

    scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
    with contextlib.nullcontext() if taken == 3 else pytest.raises(ClientDisconnect):
        asyncio.run(sent(output, "text/plain", {})(scope, receive, send))
    assert output.closed and len(messages) == taken
