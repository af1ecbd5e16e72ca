# SPDX-License-Identifier: Apache-2.0
"""Parts become documents once all of them are there. Ray is simulated; tests/corpus/test_corpus.py has the real one."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from corpus import assembling, records, run
from corpus.documents import Document, Part
from corpus.job import Job
from corpus.page_service import PageRead
from corpus.progress import Progress
from corpus.records import Outcome
from docparser.errors import StorageAway
from tests.corpus.rows import VERSION, kept, part_row


class SimulatedRay:
    """Tasks that have ended only once somebody waits without a limit, or `ends` is set."""

    def __init__(self) -> None:
        self.ends, self.waits, self.begun = True, list[tuple[int, float | None]](), 0

    def remote(self, **_: Any) -> Callable[[Callable[..., Any]], Any]:
        def task(function: Callable[..., Any]) -> Any:
            def begin(*words: Any) -> Any:
                self.begun += 1
                return (self.begun, lambda: function(*words))

            return SimpleNamespace(remote=begin)

        return task

    def wait(self, running: list[Any], timeout: float | None) -> tuple[list[Any], list[Any]]:
        self.waits.append((len(running), timeout))
        return (running[:1], running[1:]) if self.ends or timeout is None else ([], running)

    def get(self, reference: Any) -> Any:
        return reference[1]()

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}


@pytest.fixture
def assembly(job: Job, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[run.Assembly, SimulatedRay, Progress]]:
    ray = SimulatedRay()
    monkeypatch.setattr(run, "ray", ray)
    monkeypatch.setattr(run, "from_parts", lambda _, document, pages, format: Outcome(document.name, pages, 1, 2))
    counts = Progress(9, 99, {}, io.StringIO())
    yield run.Assembly(job, counts), ray, counts


def test_a_document_is_assembled_when_its_last_part_is_there(
    assembly: tuple[run.Assembly, SimulatedRay, Progress],
) -> None:
    made, ray, counts = assembly
    for name in ("a.pdf", "b.pdf", "a.pdf"):
        assert ray.begun == 0
        made.add(part_row(name=name, parts=2))
    assert (ray.begun, counts.done, counts.missing, counts.incomplete) == (1, 1, 1, 2)
    made.finish()
    assert counts.done == 1, "a part of the other is not read"


def test_few_documents_are_assembled_at_once(assembly: tuple[run.Assembly, SimulatedRay, Progress]) -> None:
    """Two for each core; the next one waits for one of them."""
    made, ray, counts = assembly
    ray.ends = False
    for number in range(4):
        made.add(part_row(name=f"{number}.pdf", parts=1))
    assert counts.done == 0 and {timeout for _, timeout in ray.waits} == {0}
    made.add(part_row(name="4.pdf", parts=1))
    assert counts.done == 1 and ray.waits[-2:] == [(5, None), (4, 0)]
    made.finish()
    assert counts.done == 5 and counts.aside == 0


def test_a_document_that_was_given_up_is_counted_once_and_not_assembled(
    job: Job, assembly: tuple[run.Assembly, SimulatedRay, Progress]
) -> None:
    made, ray, counts = assembly
    document = Document("a.pdf", 7, VERSION)
    job.output().put(Part(document, 5, 1, 1).name, b"{}")
    made.add(part_row(parts=2))
    for _ in range(2):
        made.end(part_row(parts=2, reason="damaged", missing=0, incomplete=0))
    made.add(part_row(parts=2))
    assert (ray.begun, counts.done, counts.aside) == (0, 0, 1) and not list(job.output().entries("_corpus/parts/"))


def answered(number: int) -> PageRead:
    """A page as the parser answers for it."""
    entry = {"markdown": {"text": f"text of page {number}", "images": {}}, "prunedResult": {"parsing_res_list": []}}
    return PageRead(number, {"layoutParsingResults": [entry]}, 0.5)


def keep_parts(job: Job, document: Document, *parts: tuple[int, int]) -> None:
    for first, last in parts:
        pages = [answered(number) for number in range(first, last + 1)]
        assembling.keep_part(job, Part(document, 5, first, last), pages)


def test_parts_become_one_document_and_are_removed(job: Job) -> None:
    document = Document("a.pdf", 7, VERSION)
    keep_parts(job, document, (1, 1), (2, 3), (4, 5))
    for _ in range(2):  # Ray repeats a task whose node went away
        assert assembling.from_parts(job, document, 5, "PDF") == Outcome("a.pdf", 5)
        written = (job.output().get("a.pdf/a.md") or b"").decode()
        assert written.split("\n\n") == [f"text of page {number}" for number in range(1, 5)] + ["text of page 5\n"]
        assert not list(job.output().entries("_corpus/parts/"))


def test_a_part_that_is_not_there_ends_no_document(job: Job) -> None:
    document = Document("a.pdf", 7, VERSION)
    keep_parts(job, document, (1, 1), (4, 5))
    with pytest.raises(StorageAway, match="000002-000003.jsonl was written to .*/out and is not there"):
        assembling.from_parts(dataclasses.replace(job, patience_s=-1), document, 5, "PDF")
    assert {entry.key.split("/")[1] for entry in job.output().entries()} == {"parts"}


def test_a_page_of_which_nothing_came_is_missing(job: Job) -> None:
    outcome = assembling.assemble(job, Document("a.pdf", 7, VERSION), 3, "PDF", [answered(1), answered(3)])
    assert outcome == Outcome("a.pdf", 3, missing=1)
    assert set(kept(job, records.INCOMPLETE)) == {"a.pdf"} and not kept(job, records.DONE)
