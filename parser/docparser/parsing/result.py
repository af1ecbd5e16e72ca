# SPDX-License-Identifier: Apache-2.0
"""The result of one document: the outcome of each page, and what an answer of ``/layout-parsing`` says of them. Entries
pass as bytes; nothing reads them here."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from docparser.contract.answers import (
    DataInfo,
    DocumentNotes,
    ModelsInUse,
    Note,
    NotedBlock,
    PageReport,
    PageSize,
    Report,
)
from docparser.documents.spool import close
from docparser.errors import InvalidRequest, ParserError, VlmUnavailable, disk_errors
from docparser.worker.messages import ParsedPage

IN_MEMORY = 8 << 20  # bytes of one request
CHUNK = 1 << 20
BLOCK_TRIES = 3  # of a page that no request waits for, while the VLM leaves some of its blocks unanswered
BLOCK_PAUSE_S = 5.0
VLM_FAILED = ("failed", "timeout")  # kinds of notes: the VLM broke on the block; it did not refuse it


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
    def vlm_failure(self) -> VlmUnavailable | None:
        """The page's error if the VLM answered for no block, and refused none: there is nothing of it to keep."""
        if self.parsed is None or self.parsed.blocks_answered or not (notes := self.parsed.block_notes):
            return None
        if any(note["kind"] not in VLM_FAILED for note in notes):
            return None
        return VlmUnavailable(f"The VLM server failed on every block: {notes[0]['message']}")


class DocumentReport:
    """Collects the outcomes of those pages of a document of the format ``format`` that are read; ``indices`` count from
    0. ``document_pages``: how many it has, where these are not all."""

    def __init__(self, format: str, indices: Iterable[int], document_pages: int = 1) -> None:
        self._format = format
        self._document_pages = document_pages
        self._sizes: dict[int, PageSize] = {index: {"width": 0, "height": 0} for index in indices}
        self._errors: dict[int, ParserError] = {}
        self._block_notes: dict[int, list[NotedBlock]] = {}
        self._page_notes: dict[int, list[Note]] = {}
        self._answered, self._read = 0, 0  # blocks by the VLM; pages, also those without a text
        self.tokens = (0, 0)  # of the VLM: of prompts, and of texts

    def add(self, outcome: PageOutcome) -> None:
        if outcome.error is not None:
            self._errors[outcome.index] = outcome.error
            return
        parsed = outcome.parsed
        assert parsed is not None, "a page ends parsed or with an error"
        self._sizes[outcome.index] = {"width": parsed.width, "height": parsed.height}
        self._answered += parsed.blocks_answered
        self._read += bool(parsed.blocks_answered or not parsed.block_notes)
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
        """Raises the VLM's error if it failed on all that it was asked, else that of the first page if no page was
        read. A page without text counts as read."""
        if self._answered:
            return
        notes = [note for notes in self._block_notes.values() for note in notes]
        failed = next((note for note in notes if note["kind"] != "refused"), None)
        if failed is not None:
            raise VlmUnavailable(f"The VLM server failed on every block of the document: {failed['message']}")
        if self._read or not self.partial:
            return
        if not self._errors:
            raise InvalidRequest(f"The VLM server refused every block of the document: {notes[0]['message']}")
        index = min(self._errors)
        error = self._errors[index]
        if max(len(self._sizes), self._document_pages) == 1 or str(error).startswith("file: page "):
            raise error
        raise type(error)(f"page {index + 1}: {error}")

    def data_info(self) -> DataInfo:
        return info_of(self._format, list(self._sizes.values()), self._document_pages)

    def as_dict(self) -> DocumentNotes:
        """``{partial, pages}``; ``pages`` lists those of which there is something to say. Numbers count from 1."""
        pages: list[PageReport] = []
        for index in sorted(self._errors.keys() | self._block_notes.keys() | self._page_notes.keys()):
            page: PageReport = {"page": index + 1}
            if index in self._errors:
                error = self._errors[index]
                page["error"] = {"kind": error.kind, "message": str(error)}
            if index in self._block_notes:
                page["blocks"] = self._block_notes[index]
            if index in self._page_notes:
                page["notes"] = self._page_notes[index]
            pages.append(page)
        return {"partial": self.partial, "pages": pages}


def info_of(format: str, sizes: list[PageSize], document_pages: int) -> DataInfo:
    """``dataInfo`` of the pages that are read of a document: their sizes in pixels, 0 for one that failed."""
    if format == "PDF":
        return {"type": "pdf", "numPages": len(sizes), "pages": sizes}
    if max(len(sizes), document_pages) > 1:
        return {"type": "tiff", "numPages": len(sizes), "pages": sizes}
    size: PageSize = sizes[0] if sizes else {"width": 0, "height": 0}
    return {"type": "image", "width": size["width"], "height": size["height"]}


class EntryStore:
    """Entries of ``layoutParsingResults`` as JSON: put in any order, read in the order of their pages.

    Closing the store deletes its file.
    """

    def __init__(self, folder: Path | None) -> None:
        place = None if folder is None else str(folder)
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY, prefix="docparser-", dir=place)  # noqa: SIM115
        self._places: dict[int, tuple[int, int]] = {}
        self._end = 0

    def put(self, index: int, entry: bytes) -> None:
        """Raises SpoolFull."""
        with disk_errors("result"):
            self._file.seek(self._end)
            self._file.write(entry)
            self._file.flush()
        self._places[index] = (self._end, len(entry))
        self._end += len(entry)

    def get(self, index: int) -> bytes:
        offset, length = self._places[index]
        self._file.seek(offset)
        return self._file.read(length)

    @property
    def count(self) -> int:
        """How many entries there are."""
        return len(self._places)

    @property
    def indices(self) -> list[int]:
        return sorted(self._places)

    @property
    def size(self) -> int:
        """Bytes of all entries and the commas between them."""
        return sum(length for _, length in self._places.values()) + max(0, len(self._places) - 1)

    def joined(self) -> Iterator[bytes]:
        """All entries, with commas, in pieces."""
        for number, entry in enumerate(self.entries()):
            if number:
                yield b","
            for start in range(0, len(entry), CHUNK):
                yield entry[start : start + CHUNK]

    def entries(self) -> Iterator[bytes]:
        """Each entry in order."""
        for index in self.indices:
            yield self.get(index)

    def close(self) -> None:
        close(self._file)


# Takes the place of a page that could not be parsed, so that the other pages keep theirs.
EMPTY_ENTRY = json.dumps(
    {"prunedResult": {"parsing_res_list": [], "layout_det_res": {"boxes": []}}, "markdown": {"text": "", "images": {}}}
).encode()


def merge_objects(first: bytes, second: bytes) -> bytes:
    """Two JSON objects as one. Where both have a key, a reader takes the value of the second."""
    inside = [part for part in (first.strip()[1:-1], second.strip()[1:-1]) if part.strip()]
    return b"{" + b",".join(inside) + b"}"


class ParseResult:
    """``rest`` is what stands beside ``layoutParsingResults`` in the result; ``tokens`` are the VLM's, of its prompts
    and of its texts. Close it.

    ``models`` in the methods names the weights in use; see ``Readiness.models_in_use``.
    """

    def __init__(self, entries: EntryStore, rest: dict[str, Any], tokens: tuple[int, int] = (0, 0)) -> None:
        self._entries = entries
        self._rest = rest
        self.tokens = tokens

    def body(self, log_id: str, models: ModelsInUse) -> tuple[int, Iterator[bytes]]:
        """The answer's length in bytes, and its pieces."""
        head = json.dumps({"logId": log_id, "errorCode": 0, "errorMsg": "Success"}, ensure_ascii=False)[:-1]
        before = (head + ', "result": {"layoutParsingResults": [').encode("utf-8", "replace")
        rest = json.dumps(self._with_models(models), ensure_ascii=False)
        after = ("], " + rest[1:] + "}").encode("utf-8", "replace")

        def pieces() -> Iterator[bytes]:
            yield before
            yield from self._entries.joined()
            yield after

        return len(before) + self._entries.size + len(after), pieces()

    @property
    def pages(self) -> int:
        return self._entries.count

    @property
    def numbers(self) -> list[int]:
        """Of the pages in the document, from 1."""
        return [index + 1 for index in self._entries.indices]

    def entries(self) -> Iterator[bytes]:
        """Each page's entry in order."""
        return self._entries.entries()

    def report(self, models: ModelsInUse) -> Report:
        """``docparser`` of the answer."""
        return cast(Report, self._with_models(models)["docparser"])

    def _with_models(self, models: ModelsInUse) -> dict[str, Any]:
        return {**self._rest, "docparser": {"models": models, **self._rest["docparser"]}}

    def close(self) -> None:
        self._entries.close()
