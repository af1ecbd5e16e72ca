# SPDX-License-Identifier: Apache-2.0
"""The second stage: actors that read parts of documents. A document of one part is assembled where it was read."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from . import records
from .assembling import assemble, keep_part
from .attempts import DEATHS, Counted
from .documents import Document, Part, Unreadable
from .downloads import Downloads
from .job import Job
from .page_service import PageService
from .records import Outcome

Row = dict[str, Any]
KILLED = "pages {first} to {last} ended {deaths} processes that read them"


class PartReader:
    """One actor. Takes rows of parts and gives rows of their outcomes: ``ended`` is set for a document that is done or
    set aside, otherwise its part is kept. Several threads call it, so that pages of the next part are laid out while
    the VLM reads the last ones."""

    def __init__(self, job: Job, attempts: Counted) -> None:
        """Raises NotReady."""
        self._job, self._attempts = job, attempts
        self._folder = tempfile.TemporaryDirectory(prefix="corpus-reader-")
        folder = Path(self._folder.name)
        self._downloads = Downloads(job, folder)
        self._pages = PageService(job.parser_settings(folder), dict(job.request), dict(job.models), demo=job.demo)

    def __call__(self, row: Row) -> Row:
        document = Document.of(row)
        part = Part(document, row["pages"], row["first"], row["last"])
        if row["read"]:
            outcome = Outcome(document.name, reason=row["reason"]) if row["reason"] else None
            return self._told(row, outcome, pages=0)
        if not self._attempts.begin(part.name):
            reason = KILLED.format(first=part.first, last=part.last, deaths=DEATHS)
            return self._told(row, self._set_aside(document, part, reason), pages=0)
        try:
            told = self._told(row, self._read(document, part, row["format"]), pages=part.last - part.first + 1)
        except Unreadable as error:
            told = self._told(row, self._set_aside(document, part, str(error)), pages=0)
        self._attempts.end(part.name)
        return told

    def _read(self, document: Document, part: Part, format: str) -> Outcome | None:
        """Raises Unreadable."""
        with self._downloads.document(document.name) as path:
            pages = self._pages.read(path, format, range(part.first, part.last + 1))
        if part.whole:
            return assemble(self._job, document, part.pages, format, pages)
        keep_part(self._job, part, pages)
        return None

    def _set_aside(self, document: Document, part: Part, reason: str) -> Outcome:
        outcome = Outcome(document.name, part.pages, reason=reason)
        self._job.patiently(lambda: records.keep(self._job.output(), document, outcome))
        return outcome

    @staticmethod
    def _told(row: Row, outcome: Outcome | None, pages: int) -> Row:
        ended = outcome or Outcome(row["name"])
        return {
            **{name: row[name] for name in ("name", "size", "version", "format", "pages", "parts")},
            "read": pages,
            "ended": outcome is not None,
            "missing": ended.missing,
            "incomplete": ended.incomplete,
            "reason": ended.reason,
        }
