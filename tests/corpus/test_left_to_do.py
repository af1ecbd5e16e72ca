# SPDX-License-Identifier: Apache-2.0
"""Which documents a run has to do, by the files at its input and by the records of earlier runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from corpus import driver, records, run
from corpus.documents import Document, LeftOut, listed
from corpus.job import Job
from corpus.records import Outcome
from corpus.storage import FolderStorage
from docparser.s3 import Entry
from tests.corpus.rows import VERSION, kept


def test_which_files_are_documents(tmp_path: Path) -> None:
    for name in ("a.pdf", "SCAN.PDF", "deep/Page.JpG", "notes.txt", ".hidden/b.pdf", "out/c.pdf", "pdf"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "link").symlink_to("deep")
    left_out = LeftOut()
    found = {document.name for document in listed(FolderStorage(tmp_path), {}, "out/", left_out)}
    assert found == {"a.pdf", "SCAN.PDF", "deep/Page.JpG"}
    assert str(left_out) == (
        " Left out: no document by its ending: 2 ('notes.txt', 'pdf'); link to a folder, not followed: 1 ('link/'); "
        "hidden: 1 ('.hidden/b.pdf')."
    )
    bucket: Any = SimpleNamespace(entries=lambda: iter([Entry("scans/", 0, 0.0), Entry("scans/a.pdf", 7, 0.0)]))
    nothing = LeftOut()
    assert [document.name for document in listed(bucket, {}, "", nothing)] == ["scans/a.pdf"]
    assert str(nothing) == "", "a console marks a folder by an empty object"
    for number in range(7):
        left_out.add("hidden", f".{number}.pdf")
    assert str(left_out).endswith("hidden: 8 ('.hidden/b.pdf', '.0.pdf', '.1.pdf', '.2.pdf', '.3.pdf', ...).")


def test_what_is_left_to_do(job: Job) -> None:
    done, lost, part, aside, new = (
        Document(f"{name}.pdf", 7, VERSION) for name in ("done", "lost", "part", "aside", "new")
    )
    records.keep(job.output(), done, Outcome(done.name, 3))
    records.keep(job.output(), lost, Outcome(lost.name, 3, missing=1))
    records.keep(job.output(), part, Outcome(part.name, 3, incomplete=1))
    records.keep(job.output(), aside, Outcome(aside.name, reason="damaged"))
    assert records.ended(job.output(), lost) == Outcome(lost.name, 3, missing=1)
    empty = Document("empty.pdf", 7, VERSION)
    job.output().put(f"{records.DONE}{empty.key}{records.END}", b"")
    changed = dataclasses.replace(done, version="ba9876543210")
    assert run.left_to_do(job, iter([empty]), again=False).left == [empty], "a power cut left its record empty"
    records.forget(job.output(), empty, records.DONE)
    found = run.left_to_do(job, iter([done, lost, part, aside, new, changed]), again=False)
    assert found == ([new, dataclasses.replace(changed, former=VERSION)], 1, ["lost.pdf", "part.pdf"], ["aside.pdf"])
    assert run.left_to_do(job, iter([done, lost, part, aside]), again=True) == ([lost, part, aside], 1, [], [])
    assert kept(job, records.ASIDE) == kept(job, records.INCOMPLETE) == {} and set(kept(job, records.DONE)) == {
        "done.pdf"
    }


@pytest.mark.parametrize(
    ("source", "out", "inside"),
    [("/a", "/a/out", "out/"), ("/a", "/a/b/out", "b/out/"), ("/a", "/ab/out", ""), ("/a/out", "/a", "")],
)
def test_outputs_below_the_input_are_no_documents(source: str, out: str, inside: str) -> None:
    assert driver._inside(FolderStorage(Path(source)), FolderStorage(Path(out))) == inside
