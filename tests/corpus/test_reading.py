# SPDX-License-Identifier: Apache-2.0
"""Parts are read and kept: without a cluster, and what lays out pages is simulated.

tests/corpus/test_corpus.py has all stages on Ray.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from corpus import reading, records
from corpus.documents import Document, Part
from corpus.job import Job
from corpus.page_service import PageRead
from corpus.reading import PartReader
from corpus.records import Outcome
from tests.corpus.rows import VERSION, Row, kept, part_row


class SimulatedPages:
    def read(self, path: Path, format: str, numbers: range) -> list[PageRead]:
        assert path.read_bytes() == b"content" and format == "PDF"
        return [PageRead(number, {"page": number}, 0.5) for number in numbers]


class SimulatedAttempts:
    def __init__(self, allowed: bool = True) -> None:
        self.allowed, self.asked = allowed, list[tuple[str, str]]()

    def begin(self, part: str) -> bool:
        self.asked.append(("begin", part))
        return self.allowed

    def end(self, part: str) -> None:
        self.asked.append(("end", part))


def reader(job: Job, folder: Path, attempts: SimulatedAttempts) -> PartReader:
    """Without a process that lays out pages."""
    made = object.__new__(PartReader)
    made._job, made._attempts = job, attempts  # type: ignore[assignment]  # simulated
    made._downloads, made._pages = reading.Downloads(job, folder), SimulatedPages()  # type: ignore[assignment]  # simulated
    return made


def test_a_part_is_read_and_kept(job: Job, tmp_path: Path) -> None:
    Path(job.source, "a.pdf").write_bytes(b"content")
    attempts = SimulatedAttempts()
    told = reader(job, tmp_path, attempts)(part_row())
    part = Part(Document("a.pdf", 7, VERSION), 5, 2, 3)
    assert (told["read"], told["ended"], told["parts"], told["pages"]) == (2, False, 3, 5)
    lines = (job.output().get(part.name) or b"").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"page": page, "result": {"page": page}, "seconds": 0.5} for page in (2, 3)
    ]
    assert attempts.asked == [("begin", part.name), ("end", part.name)]


def test_a_document_of_one_part_is_assembled_where_it_was_read(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(job.source, "a.pdf").write_bytes(b"content")
    given: list[Any] = []
    outcome = Outcome("a.pdf", 2, missing=1, incomplete=3)

    def assemble(*words: Any) -> Outcome:
        given.append(words)
        return outcome

    monkeypatch.setattr(reading, "assemble", assemble)
    told = reader(job, tmp_path, SimulatedAttempts())(part_row(pages=2, parts=1, first=1, last=2))
    assert (told["read"], told["ended"], told["missing"], told["incomplete"]) == (2, True, 1, 3)
    ((_, document, pages, format, read),) = given
    assert (document.name, pages, format) == ("a.pdf", 2, "PDF") and [page.number for page in read] == [1, 2]


@pytest.mark.parametrize(
    ("more", "allowed", "reason", "in_records"),
    [
        ({"read": True}, True, "", False),
        ({"read": True, "reason": "damaged"}, True, "damaged", False),
        ({}, False, "pages 2 to 3 ended 2 processes that read them", True),
        ({}, True, "it is gone; it was there when the run began", True),
    ],
)
def test_a_part_that_is_not_read(
    job: Job, tmp_path: Path, more: Row, allowed: bool, reason: str, in_records: bool
) -> None:
    told = reader(job, tmp_path, SimulatedAttempts(allowed))(part_row(**more))
    assert told["reason"] == reason and told["ended"] == bool(reason) and told["read"] == 0
    assert ("a.pdf" in kept(job, records.ASIDE)) == in_records
