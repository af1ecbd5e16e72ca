# SPDX-License-Identifier: Apache-2.0
"""The files that are written for a document when all its pages are there: one module for each format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from ..state import DocumentState
from . import chunk_lines, drawing, json_file, markdown, searchable, spreadsheet, word

# Name on the command line -> (name of the file after the document's stem, who writes it).
FORMATS: dict[str, tuple[str, Callable[[DocumentState, Path], bool]]] = {
    "md": (".md", markdown.write),
    "json": (".json", json_file.write),
    "xlsx": (".xlsx", spreadsheet.write),
    "docx": (".docx", word.write),
    "pdf": (".pdf", searchable.write),
    "chunks": (".chunks.jsonl", chunk_lines.write),
    "layout": (".layout.pdf", drawing.write),
}
DEFAULT = ("md", "json")


def file(state: DocumentState, name: str) -> Path:
    """Where a format is written, if it has content."""
    return state.folder / f"{state.document.stem}{FORMATS[name][0]}"


def write_all(state: DocumentState, formats: Iterable[str]) -> list[Path]:
    """Write each format and return the files.

    A format that has no content, like a workbook without tables, is not written, and its earlier file is removed.
    """
    written = []
    for name in formats:
        _, write = FORMATS[name]
        path = file(state, name)
        if write(state, path):
            written.append(path)
        else:
            path.unlink(missing_ok=True)
    return written
