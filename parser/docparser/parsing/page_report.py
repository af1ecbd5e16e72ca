# SPDX-License-Identifier: Apache-2.0
"""The outcome of each page of a document, and what an answer says of them: ``dataInfo`` and ``docparser``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from docparser.contract.answers import DataInfo, DocumentNotes, Note, NotedBlock, PageReport, PageSize
from docparser.errors import InvalidRequest, ParserError, VlmUnavailable
from docparser.worker.messages import ParsedPage

VLM_FAILED = ("failed", "timeout")  # kinds of notes: the VLM broke on the block; it did not refuse it

ERROR_KINDS = {
    "InvalidDocument": "invalid",
    "DocumentTooLarge": "too_large",
    "DocumentTooSlow": "too_slow",
    "StepTooSlow": "too_slow",
    "BoundExceeded": "too_large",
    "UnreadableText": "invalid",
    "PageTimeout": "timeout",
    "WorkerLost": "worker_lost",
    "InternalError": "internal",
    "QuotaExceeded": "quota",
    "StorageDamaged": "damaged",
}


@dataclasses.dataclass(frozen=True)
class PageOutcome:
    """How one page ended: ``parsed`` or ``error``; ``index`` counts from 0."""

    index: int
    parsed: ParsedPage | None = None
    error: ParserError | None = None

    @property
    def vlm_failed_on_some_block(self) -> bool:
        return self.parsed is not None and any(note["kind"] in VLM_FAILED for note in self.parsed.block_notes)

    @property
    def vlm_failed_on_every_block(self) -> bool:
        """The VLM answered for no block, and refused none: there is nothing of the page to keep."""
        if self.parsed is None or self.parsed.blocks_answered or not self.parsed.block_notes:
            return False
        return all(note["kind"] in VLM_FAILED for note in self.parsed.block_notes)


class DocumentReport:
    """Collects the outcomes of those pages of a document of the format ``format`` that are read; ``indices`` count from
    0."""

    def __init__(self, format: str, indices: Iterable[int]) -> None:
        self._format = format
        self._sizes: dict[int, PageSize] = {index: {"width": 0, "height": 0} for index in indices}
        self._errors: dict[int, ParserError] = {}
        self._block_notes: dict[int, list[NotedBlock]] = {}
        self._page_notes: dict[int, list[Note]] = {}
        self._answered = 0
        self.tokens = (0, 0)  # of the VLM: of prompts, and of texts

    def add(self, outcome: PageOutcome) -> None:
        if outcome.error is not None:
            self._errors[outcome.index] = outcome.error
            return
        parsed = outcome.parsed
        assert parsed is not None, "a page ends parsed or with an error"
        self._sizes[outcome.index] = {"width": parsed.width, "height": parsed.height}
        self._answered += parsed.blocks_answered
        self.tokens = (self.tokens[0] + parsed.tokens[0], self.tokens[1] + parsed.tokens[1])
        if parsed.block_notes:
            self._block_notes[outcome.index] = parsed.block_notes
        if parsed.page_notes:
            self._page_notes[outcome.index] = parsed.page_notes

    def note(self, index: int, note: NotedBlock) -> None:
        """Add a note to a page that was parsed."""
        self._block_notes[index] = [*self._block_notes.get(index, []), note]

    @property
    def partial(self) -> bool:
        return bool(self._errors or self._block_notes)

    def check(self) -> None:
        """Raises the error of the first page, or of the VLM, if nothing of the document was read."""
        if self._answered or not self.partial:
            return
        if self._errors:
            index = min(self._errors)
            error = self._errors[index]
            if len(self._sizes) == 1 or str(error).startswith("file: page "):
                raise error
            raise type(error)(f"page {index + 1} of {len(self._sizes)}: {error}")
        notes = [note for notes in self._block_notes.values() for note in notes]
        failed = next((note for note in notes if note["kind"] != "refused"), None)
        if failed is None:
            raise InvalidRequest(f"The VLM server refused every block of the document: {notes[0]['message']}")
        raise VlmUnavailable(f"The VLM server failed on every block of the document: {failed['message']}")

    def data_info(self) -> DataInfo:
        """``dataInfo``: sizes of the parsed pages in pixels, 0 for a page that failed."""
        sizes = list(self._sizes.values())
        if self._format == "PDF":
            return {"type": "pdf", "numPages": len(sizes), "pages": sizes}
        if len(sizes) > 1:
            return {"type": "tiff", "numPages": len(sizes), "pages": sizes}
        return {"type": "image", "width": sizes[0]["width"], "height": sizes[0]["height"]}

    def as_dict(self) -> DocumentNotes:
        """``{partial, pages}``; ``pages`` lists those of which there is something to say. Numbers count from 1."""
        pages: list[PageReport] = []
        for index in sorted(self._errors.keys() | self._block_notes.keys() | self._page_notes.keys()):
            page: PageReport = {"page": index + 1}
            if index in self._errors:
                error = self._errors[index]
                page["error"] = {"kind": ERROR_KINDS.get(type(error).__name__, "failed"), "message": str(error)}
            if index in self._block_notes:
                page["blocks"] = self._block_notes[index]
            if index in self._page_notes:
                page["notes"] = self._page_notes[index]
            pages.append(page)
        return {"partial": self.partial, "pages": pages}
