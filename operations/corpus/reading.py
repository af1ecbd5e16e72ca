# SPDX-License-Identifier: Apache-2.0
"""The second stage: actors that read parts of documents, each from one file of the document. A document of one part is
assembled where it was read."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import records
from .assembling import assemble, keep_part
from .attempts import DEATHS, Counted
from .documents import Document, Part, Unreadable
from .job import Job
from .page_service import PageService
from .records import Outcome

Row = dict[str, Any]
KILLED = "pages {first} to {last} ended {deaths} processes that read them"


@dataclasses.dataclass
class Held:
    """The file of a document at work. Hold ``loading`` to check for it or to download it; ``users`` counts those who
    have it open."""

    path: Path
    loading: threading.Lock
    users: int = 0


class Downloads:
    """Each document is downloaded once, however many of its parts this process has at work. Any thread may call it."""

    def __init__(self, job: Job, folder: Path) -> None:
        self._job, self._folder = job, folder
        self._lock = threading.Lock()
        self._held: dict[str, Held] = {}

    @contextlib.contextmanager
    def document(self, name: str) -> Iterator[Path]:
        """A file with a document's bytes. Raises Unreadable, StorageUnavailable."""
        with self._lock:
            if name not in self._held:
                folder = Path(tempfile.mkdtemp(prefix="input-", dir=self._folder))
                self._held[name] = Held(folder / Path(name).name, threading.Lock())
            held = self._held[name]
            held.users += 1
        try:
            with held.loading:
                if not held.path.is_file():
                    self._download(name, held.path)
            yield held.path
        finally:
            with self._lock:
                held.users -= 1
                if not held.users:
                    del self._held[name]
                    shutil.rmtree(held.path.parent, ignore_errors=True)

    def _download(self, name: str, path: Path) -> None:
        # First under another name, so that a broken download never passes for the document.
        unfinished = path.with_name("unfinished")
        self._job.fetch(name, unfinished)
        unfinished.rename(path)


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
