# SPDX-License-Identifier: Apache-2.0
"""The first stage: open each document, count its pages, and split it into parts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docparser.documents.page import DocumentLimits
from docparser.documents.reader import DocumentReader
from docparser.documents.spool import Document as Spooled
from docparser.errors import ParserError, StorageUnavailable
from file_types import HEAD_BYTES, format_of, refusal

from . import records
from .assembling import remove_former
from .documents import Document, Unreadable, parts_of, split
from .job import Job, at_work
from .records import Outcome

Row = dict[str, Any]


class Opener:
    """Rows of documents in, rows of parts out. ``read``: the part was read by an earlier run; ``reason``: why there is
    nothing to read."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def __call__(self, row: Row) -> Iterator[Row]:
        document = Document.of(row)
        for version in row["former"].split():
            remove_former(self._job, dataclasses.replace(document, version=version))
        try:
            count, format = self._count(document)
        except Unreadable as error:
            outcome = Outcome(document.name, reason=str(error))
            self._job.patiently(lambda: records.keep(self._job.output(), document, outcome))
            nothing = {"format": "", "pages": 0, "parts": 1, "first": 1, "last": 0}
            yield {**row, **nothing, "read": True, "reason": str(error)}
            return
        parts = list(split(document, count, self._job.pages_per_part))
        read = set()
        if len(parts) > 1:
            read = self._job.patiently(lambda: {e.key for e in self._job.output().entries(parts_of(document))})
        for part in parts:
            of = {"format": format, "pages": count, "parts": len(parts), "first": part.first, "last": part.last}
            yield {**row, **of, "read": part.name in read, "reason": ""}

    def _count(self, document: Document) -> tuple[int, str]:
        """Pages and format. Raises Unreadable, StorageUnavailable."""
        with at_work() as folder:
            path = folder / "document"
            self._job.fetch(document.name, path)
            format = format_at(path)
            try:
                return _reader(self._job).count_pages(Spooled(str(path), format)), format
            except StorageUnavailable:
                raise
            except ParserError as error:
                raise Unreadable(str(error)) from None


def format_at(path: Path) -> str:
    """The format by a file's first bytes. Raises Unreadable."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    found = format_of(head)
    if found is None:
        raise Unreadable(f"it {refusal(head)}")
    return found


@functools.cache
def _reader_with(limits: DocumentLimits) -> DocumentReader:
    return DocumentReader(limits)


def _reader(job: Job) -> DocumentReader:
    """One for all documents of this process. It opens strangers' files in a process of its own."""
    return _reader_with(DocumentLimits.of(job.parser_settings(Path("/"))))
