# SPDX-License-Identifier: Apache-2.0
"""The files that are written for a document when all its pages are there, as the service writes them
(docparser.convert), and the report of all. Pages are read one by one; a table that continues on the next page becomes
one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from bundle import files
from docparser.convert import chunks, searchable_pdf, to_markdown, word, workbook
from docparser.convert.document import ResultPage, Source
from docparser.convert.names import DEFAULT_TOKENS, PAGE_BREAK, writable
from docparser.convert.parts import NO_OUTLINE, Outline, outline_of
from docparser.convert.table_joins import joined_pages

from .inputs import LeftOut
from .pages import kind
from .picture_pdf import PicturePdf
from .state import DocumentState, Trouble


def write_all(state: DocumentState, formats: Iterable[str]) -> list[Path]:
    """Write each format and return the files.

    A format that has no content, like a workbook without tables, is not written, and its earlier file is removed.
    """
    written = []
    for name in formats:
        _, write = FORMATS[name]
        path = file(state, name)
        if write(state, path):
            if state.lasting:
                files.flush(path)
            written.append(path)
        else:
            path.unlink(missing_ok=True)
    return written


def remove_all(state: DocumentState) -> None:
    """Remove the outputs of an earlier run, of another file or with other options."""
    for path in (file(state, name) for name in FORMATS):
        path.unlink(missing_ok=True)
    for picture in (state.folder / "images").glob(f"{5 * '[0-9]'}*-*"):  # as answers.keep names them
        picture.unlink()


def file(state: DocumentState, name: str) -> Path:
    """Where a format is written, if it has content."""
    return state.folder / f"{state.document.stem}{FORMATS[name][0]}"


def markdown(state: DocumentState, path: Path) -> bool:
    """Page after page as PaddleOCR's `concatenate_markdown_pages` joins them: an empty line between two pages (PaddleX
    3.7, pipelines/paddleocr_vl/pipeline.py). Headings are as printed, at the levels of the whole document."""
    with files.whole(path) as part, part.open("w", encoding="utf-8", errors="backslashreplace") as stream:
        for number, page in enumerate(_pages(state, lost)):
            stream.write((PAGE_BREAK if number else "") + to_markdown.with_printed_headings(page).strip())
        stream.write("\n")
    return True


def lost(trouble: Trouble) -> str:
    """Takes a missing page's place: an HTML comment, which no reader shows."""
    return f"<!-- page {trouble.page} is missing: {trouble.reason.replace('--', '- -')} -->"


def parsers_json(state: DocumentState, path: Path) -> bool:
    """The parser's answers, written page by page, so that only one is in memory."""
    head = {"file": state.document.path.name, "numPages": state.count}
    with files.whole(path) as part, part.open("w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(json.dumps(head, ensure_ascii=False)[:-1] + ', "pages": [')
        for number, record in enumerate(state.records()):
            if isinstance(record, Trouble):
                record = {"page": record.page, "error": record.reason}
            stream.write((",\n" if number else "\n") + json.dumps(record, ensure_ascii=False))
        stream.write("\n]}\n")
    return True


def spreadsheet(state: DocumentState, path: Path) -> bool:
    """A sheet for each table. False where the document has none."""
    book = workbook.empty_workbook(state.document.stem)
    for number, page in enumerate(_pages(state, lambda lost: ""), 1):
        workbook.add_page(book, number, page)
    if not book.sheetnames:
        return False
    with files.whole(path) as part:
        book.save(part)
    return True


def word_file(state: DocumentState, path: Path) -> bool:
    with files.whole(path) as part, part.open("wb") as stream:
        pages = _pages(state, lambda lost: f"> Page {lost.page} is missing: {lost.reason}")
        word.render(pages, stream, state.document.stem)
    return True


def searchable(state: DocumentState, path: Path) -> bool:
    """The document as a PDF that can be searched. A page without a result stays, without text. Raises UneditablePdf."""
    records = (
        (record.page, {}) if isinstance(record, Trouble) else (record["page"], record) for record in state.records()
    )
    with files.whole(path) as part, part.open("wb") as stream:
        searchable_pdf.write(Source(state.document.path, kind(state.document.path)), records, stream)
    return True


def chunk_lines(state: DocumentState, path: Path) -> bool:
    """Chunks for retrieval."""
    stem, outline = state.document.path.stem, outline_of_document(state)
    with files.whole(path) as part, part.open("wb") as stream:
        chunks.write(stem, _entries(state), DEFAULT_TOKENS, state.joins_tables, stream, outline)
    return True


def drawing(state: DocumentState, path: Path) -> bool:
    """The pages with their layout boxes drawn over them, as one PDF. False where no page was drawn."""
    with files.whole(path) as part, part.open("wb") as stream:
        drawn = PicturePdf(stream)
        for number, record in _entries(state):
            picture = state.drawing(number)
            if picture.is_file():
                drawn.add(picture.read_bytes(), record.get("points"))
        drawn.close()
    return bool(drawn.count)


# Name on the command line -> (name of the file after the document's stem, who writes it).
FORMATS: dict[str, tuple[str, Callable[[DocumentState, Path], bool]]] = {
    "md": (".md", markdown),
    "json": (".json", parsers_json),
    "xlsx": (".xlsx", spreadsheet),
    "docx": (".docx", word_file),
    "pdf": (".pdf", searchable),
    "chunks": (".chunks.jsonl", chunk_lines),
    "layout": (".layout.pdf", drawing),
}


def write_report(out: Path, states: list[DocumentState], left_out: list[LeftOut]) -> None:
    """Write `report.json` to the folder `out`: the files that were left out, and every document with its pages,
    outputs, missing and incomplete pages, doubtful blocks, sources of the texts, and notes."""
    documents = [
        {
            "document": str(state.document.name),
            "pages": state.count,
            "unread": state.unread,
            "complete": state.complete,
            "written": [name for name in state.written if file(state, name).is_file()],
            "trouble": [dataclasses.asdict(trouble) for trouble in state.trouble],
            "doubtful": [
                {"page": page, **dataclasses.asdict(doubt)} for page, found in state.doubts.items() for doubt in found
            ],
            "sources": dict(state.sources),
            "notes": [
                {"page": page, **dataclasses.asdict(note)} for page, found in state.notes.items() for note in found
            ],
        }
        for state in states
    ]
    others = [{"file": str(one.name), "reason": one.reason} for one in left_out]
    files.write_json(out / "report.json", {"documents": documents, "left_out": others})


def _entries(state: DocumentState) -> Iterator[tuple[int, dict[str, Any]]]:
    """The pages that have a result, by their numbers."""
    return ((record["page"], record) for record in state.records() if not isinstance(record, Trouble))


def outline_of_document(state: DocumentState) -> Outline:
    """The levels of the document's headings; empty if each page keeps its own."""
    return outline_of(_entries(state)) if state.outlined else NO_OUTLINE


def _pages(state: DocumentState, missing: Callable[[Trouble], str]) -> Iterator[ResultPage]:
    """`missing` is the Markdown that stands for a page without a result."""
    outline = outline_of_document(state)
    pages = (_page(record, state.folder, missing, outline) for record in state.records())
    return joined_pages(enumerate(pages, 1)) if state.joins_tables else pages


def _page(
    record: dict[str, Any] | Trouble, folder: Path, missing: Callable[[Trouble], str], outline: Outline
) -> ResultPage:
    if isinstance(record, Trouble):
        return ResultPage(writable(missing(record)), {})
    names = record["markdown"]["images"].values()
    return ResultPage.from_entry(record, {name: folder / name for name in names}, outline.get(record["page"]))
