# SPDX-License-Identifier: Apache-2.0
"""Documents become rows of their parts, or are set aside: without a cluster.

tests/corpus/test_corpus.py has all stages on Ray.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from corpus import opening, records
from corpus.documents import Document, Part, listed
from corpus.job import Job
from corpus.records import Outcome
from tests.corpus.rows import VERSION, kept, row


def counted(pages: int) -> Callable[[Job], Any]:
    return lambda _: SimpleNamespace(count_pages=lambda document: pages)


def test_a_document_becomes_rows_of_its_parts(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(job.source, "a.pdf").write_bytes(b"%PDF-1.7\n")
    monkeypatch.setattr(opening, "_reader", counted(5))
    document = Document("a.pdf", 7, VERSION)
    job.output().put(Part(document, 5, 2, 3).name, b"")
    rows = list(opening.Opener(job)(row()))
    expected = {**row(), "format": "PDF", "pages": 5, "parts": 3, "reason": ""}
    assert rows == [
        {**expected, "first": first, "last": last, "read": read}
        for first, last, read in ((1, 1, False), (2, 3, True), (4, 5, False))
    ]
    monkeypatch.setattr(opening, "_reader", counted(2))
    assert [(one["parts"], one["first"], one["last"]) for one in opening.Opener(job)(row())] == [(1, 1, 2)]


def secret(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    path.write_bytes(b"%PDF-1.7")
    monkeypatch.setattr("corpus.storage.shutil.copyfile", refuse)  # root may read everything


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path, _: None, "it is gone; it was there when the run began"),
        (lambda path, _: path.write_bytes(b"plain words"), "it "),
        (lambda path, _: os.mkfifo(path), r"it may not be read \(`.*` is a named pipe\)"),
        (lambda path, _: path.symlink_to("a.pdf"), r"it may not be read \(.*Too many levels"),
        (secret, r"it may not be read \(.*Permission denied"),
    ],
    ids=["gone", "no document", "pipe", "loop", "secret"],
)
def test_what_cannot_be_opened_is_set_aside(
    job: Job, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path, pytest.MonkeyPatch], None], why: str
) -> None:
    path = Path(job.source, "a.pdf")
    make(path, monkeypatch)
    assert [one.name for one in listed(job.input(), {})] == ["a.pdf"] * os.path.lexists(path)
    (one,) = opening.Opener(dataclasses.replace(job, patience_s=-1))(row())
    assert one["read"] and re.match(why, one["reason"]) and (one["parts"], one["pages"]) == (1, 0)
    assert kept(job, records.ASIDE)["a.pdf"]["reason"] == one["reason"]


def test_former_outputs_are_gone_before_a_changed_document_is_opened(job: Job) -> None:
    """Also where it is set aside then. What Ray repeats does not touch what was written since."""
    former = Document("a.pdf", 7, "ba9876543210")
    names = {"a.pdf/a.md", "a.pdf/a.docx", "a.pdf/images/00001-x.jpg", "corpus.parquet/a.pdf.parquet"}
    others = {"a.pdf/own.txt", "a.pdf.pdf/a.md"}

    def written() -> set[str]:
        return {entry.key for entry in job.output().entries() if not entry.key.startswith("_corpus/")}

    def write() -> None:
        for name in names | others:
            job.output().put(name, b"")

    write()
    records.keep(job.output(), former, Outcome(former.name, 3, incomplete=1))
    opener = opening.Opener(job)
    list(opener(row(former=former.version)))
    assert written() == others and not kept(job, records.INCOMPLETE)
    write()
    list(opener(row(former=former.version)))
    assert written() == names | others
