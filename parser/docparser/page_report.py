# SPDX-License-Identifier: Apache-2.0
"""How the pages of one document fared: ``dataInfo`` and ``docparser`` of the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docparser.errors import InvalidRequest, ParserError, VlmUnavailable

if TYPE_CHECKING:
    from docparser.service import PageOutcome

ERROR_KINDS = {"InvalidDocument": "invalid", "DocumentTooLarge": "too_large", "PageTimeout": "timeout",
               "WorkerLost": "worker_lost", "InternalError": "internal"}  # fmt: skip


class DocumentReport:
    def __init__(self, format: str, count: int) -> None:
        self._format = format
        self._sizes = [{"width": 0, "height": 0} for _ in range(count)]
        self._errors: dict[int, ParserError] = {}
        self._notes: dict[int, list[dict]] = {}
        self._answered = 0

    def add(self, outcome: PageOutcome) -> None:
        if outcome.error is not None:
            self._errors[outcome.index] = outcome.error
            return
        parsed = outcome.parsed
        self._sizes[outcome.index] = {"width": parsed.width, "height": parsed.height}
        self._answered += parsed.blocks_answered
        if parsed.notes:
            self._notes[outcome.index] = parsed.notes

    @property
    def partial(self) -> bool:
        return bool(self._errors or self._notes)

    def check(self) -> None:
        """A part of a document is an answer only if something of it was read. Raises the first page's trouble if not."""
        if self._answered or not self.partial:
            return
        if self._errors:
            index = min(self._errors)
            error = self._errors[index]
            if len(self._sizes) == 1 or str(error).startswith("file: page "):
                raise error
            raise type(error)(f"page {index + 1} of {len(self._sizes)}: {error}")
        notes = [note for notes in self._notes.values() for note in notes]
        failed = next((note for note in notes if note["kind"] != "refused"), None)
        if failed is None:
            raise InvalidRequest(f"The VLM server refused every block of the document: {notes[0]['message']}")
        raise VlmUnavailable(f"The VLM server failed on every block of the document: {failed['message']}")

    def data_info(self) -> dict:
        """``dataInfo``; sizes in pixels of the page as it was parsed, 0 where that failed."""
        sizes = self._sizes
        if self._format == "PDF":
            return {"type": "pdf", "numPages": len(sizes), "pages": sizes}
        if len(sizes) > 1:
            return {"type": "tiff", "numPages": len(sizes), "pages": sizes}
        return {"type": "image", **sizes[0]}

    def as_dict(self) -> dict:
        """``{partial, pages}``; a page that has nothing to report is left out. Numbers count from 1."""
        pages = []
        for index in sorted(self._errors.keys() | self._notes.keys()):
            page: dict = {"page": index + 1}
            if index in self._errors:
                error = self._errors[index]
                page["error"] = {"kind": ERROR_KINDS.get(type(error).__name__, "failed"), "message": str(error)}
            if index in self._notes:
                page["blocks"] = self._notes[index]
            pages.append(page)
        return {"partial": self.partial, "pages": pages}
