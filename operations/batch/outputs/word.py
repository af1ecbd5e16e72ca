# SPDX-License-Identifier: Apache-2.0
"""A document as a Word file, as the service writes it (docparser.convert)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docparser.convert.characters import writable
from docparser.convert.document import Page
from docparser.convert.word_document import render

from .. import files
from ..state import DocumentState, Trouble


def write(state: DocumentState, path: Path) -> bool:
    with files.whole(path) as part, part.open("wb") as stream:
        render((page_of(record, state.folder) for record in state.records()), stream)
    return True


def page_of(record: dict[str, Any] | Trouble, folder: Path) -> Page:
    """A page's Markdown with the files of its pictures; of a missing page, a quotation that says why."""
    if isinstance(record, Trouble):
        return Page(writable(f"> Page {record.page} is missing: {record.reason}"), {})
    markdown = record["markdown"]
    return Page(writable(markdown["text"]), {name: folder / name for name in markdown["images"].values()})
