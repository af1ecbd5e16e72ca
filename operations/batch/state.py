# SPDX-License-Identifier: Apache-2.0
"""The state of a document on disk, from which an interrupted run goes on.

`OUT/<name>/.parse/state.json` names the results' source and the failed pages. `.parse/pages/00001.json` is the answer
for page 1. It is the last file written of that page, so its presence means that the page is done.
"""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from bundle import files

from .inputs import Document

VERSION = 1


@dataclass(frozen=True)
class Trouble:
    """Why a page (0: the whole document) is missing (`lost`) or incomplete."""

    page: int
    reason: str
    lost: bool = True


@dataclass(frozen=True)
class Doubt:
    """A block whose text the VLM doubted, or whose text differs from the page's own, by its number in the page's JSON.
    `agreement` is None if the page has no text of its own. Without a `confidence` either, the text was cut."""

    block: int
    label: str
    confidence: float | None
    agreement: float | None = None


@dataclass(frozen=True)
class Note:
    """A note on a page that was read without failure."""

    kind: str
    message: str


class DocumentState:
    """The state of one document below `out`. Results of another file or of other options are discarded. Several
    threads may keep pages at a time. `lasting`: a power cut loses nothing that was written."""

    def __init__(self, document: Document, out: Path, options: dict[str, Any], lasting: bool = True) -> None:
        self.document, self.lasting = document, lasting
        self.folder = out / document.name
        self.pages_folder = self.folder / ".parse" / "pages"
        self._file = self.folder / ".parse" / "state.json"
        made_from = {"version": VERSION, "options": options, **identity(document.path)}
        known = files.read_json(self._file)
        if not isinstance(known, dict) or known.get("made_from") != made_from:
            known = {}
            shutil.rmtree(self.folder / ".parse", ignore_errors=True)
        self._made_from = made_from
        self._saving = threading.Lock()
        self.joins_tables = options.get("mergeTables") is not False
        self.outlined = options.get("relevelTitles") is not False
        self.count: int | None = known.get("pages")
        self.written: list[str] = known.get("written", [])
        self._doubts = {int(page): [Doubt(*one) for one in found] for page, found in known.get("doubts", {}).items()}
        self._notes = {int(page): [Note(*one) for one in found] for page, found in known.get("notes", {}).items()}
        self._sources = {int(page): Counter(found) for page, found in known.get("sources", {}).items()}
        self._trouble = {int(page): Trouble(int(page), *words) for page, words in known.get("trouble", {}).items()}

    def start(self, count: int) -> None:
        """Keep how many pages there are, and make the folders."""
        self.pages_folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "images").mkdir(exist_ok=True)
        self.count = count
        self._save()

    def page_file(self, page: int, suffix: str = ".json") -> Path:
        return self.pages_folder / f"{page:05d}{suffix}"

    def drawing(self, page: int) -> Path:
        """Return the path of the JPEG of a page with its layout boxes."""
        return self.page_file(page, ".jpg")

    def has(self, page: int, drawing: bool) -> bool:
        """Tell whether a page was parsed, and drawn if `drawing`. An empty file is what a power cut left of one."""
        wanted = [self.page_file(page), *([self.drawing(page)] if drawing else [])]
        return all(path.is_file() and path.stat().st_size for path in wanted)

    def missing(self, *, drawing: bool, retry: bool) -> list[int]:
        """Return the pages that are still to be parsed; failed and incomplete ones only if `retry`."""
        pages = range(1, (self.count or 0) + 1)
        return [page for page in pages if (retry if page in self._trouble else not self.has(page, drawing))]

    def records(self) -> Iterator[dict[str, Any] | Trouble]:
        """Yield the pages in order, each read when it is asked for: a page's record, or why it is missing. A record
        that cannot be read is noted as a trouble."""
        for page in range(1, (self.count or 0) + 1):
            record = files.read_json(self.page_file(page))
            if not record and page not in self._trouble:
                self.note(Trouble(page, "its record cannot be read; --retry-failed parses the page again"))
            yield record or self._trouble[page]

    @property
    def trouble(self) -> list[Trouble]:
        return [trouble for _, trouble in sorted(self._trouble.items())]

    @property
    def unread(self) -> int:
        """How many pages were neither read nor failed."""
        return len(self.missing(drawing=False, retry=False))

    @property
    def complete(self) -> bool:
        """Whether all pages were read and the results are written."""
        return bool(self.count) and not self._trouble and not self.unread and bool(self.written)

    @property
    def doubts(self) -> dict[int, list[Doubt]]:
        """The doubtful blocks of each page that has some, pages in order."""
        return dict(sorted(self._doubts.items()))

    def doubt(self, page: int, found: list[Doubt]) -> None:
        """Keep which blocks of a page are doubtful."""
        if found != self._doubts.get(page, []):
            self._doubts[page] = found
            if not found:
                del self._doubts[page]
            self._save()

    @property
    def sources(self) -> Counter[str]:
        """How many blocks have the VLM's text (`vlm`), and how many the page's own (`page`); empty if no parser said
        it."""
        return sum(self._sources.values(), Counter())

    def count_sources(self, page: int, found: Counter[str]) -> None:
        """Keep the sources of the texts of a page's blocks."""
        if found != self._sources.get(page, Counter()):
            self._sources[page] = found
            self._save()

    @property
    def notes(self) -> dict[int, list[Note]]:
        """The notes of each page that has some, pages in order."""
        return dict(sorted(self._notes.items()))

    def tell(self, page: int, notes: list[Note]) -> None:
        """Keep notes on a page, in place of earlier ones of the same kinds."""
        kept = [note for note in self._notes.get(page, []) if note.kind not in {new.kind for new in notes}]
        if notes and kept + notes != self._notes.get(page):
            self._notes[page] = kept + notes
            self._save()

    def note(self, trouble: Trouble) -> None:
        """Keep the trouble with a page."""
        self._trouble[trouble.page] = trouble
        self._save()

    def clear(self, page: int) -> None:
        """Forget the trouble of a page: it is parsed now."""
        if self._trouble.pop(page, None):
            self._save()

    def mark_written(self, written: list[str]) -> None:
        """Keep which outputs were written from all pages; [] while pages are parsed again."""
        if written != self.written:
            self.written = written
            self._save()

    def _save(self) -> None:
        with self._saving:  # the last writer has seen every change
            self._file.parent.mkdir(parents=True, exist_ok=True)
            trouble = {str(one.page): [one.reason, one.lost] for one in self.trouble}
            doubts = {str(page): [astuple(one) for one in found] for page, found in self.doubts.items()}
            notes = {str(page): [astuple(one) for one in found] for page, found in self.notes.items()}
            files.write_json(
                self._file,
                {
                    "made_from": self._made_from,
                    "pages": self.count,
                    "written": self.written,
                    "trouble": trouble,
                    "doubts": doubts,
                    "notes": notes,
                    "sources": dict(self._sources),
                },
                self.lasting,
            )


def identity(path: Path) -> dict[str, Any]:
    """Return size and time of the last change. A digest would read gigabytes at each start."""
    try:
        stat = path.stat()
    except OSError:
        return {"size": None, "mtime_ns": None}
    return {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
