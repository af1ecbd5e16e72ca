# SPDX-License-Identifier: Apache-2.0
"""A document's pages as docparser.convert takes them, read one by one. Tables that go on on the next page are one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from docparser.convert.document import ResultPage
from docparser.convert.parts import NO_OUTLINE, Outline, outline_of
from docparser.convert.safe_text import writable
from docparser.convert.table_joins import joined_pages

from ..state import DocumentState, Trouble


def pages_of(state: DocumentState, missing: Callable[[Trouble], str]) -> Iterator[ResultPage]:
    """`missing` is the Markdown that stands for a page without a result."""
    outline = outline_of_records(state)
    pages = (_page(record, state.folder, missing, outline) for record in state.records())
    return joined_pages(pages) if state.joins_tables else pages


def outline_of_records(state: DocumentState) -> Outline:
    """The levels of the document's headings; none where each page is to have its own."""
    if not state.outlined:
        return NO_OUTLINE
    return outline_of((record["page"], record) for record in state.records() if not isinstance(record, Trouble))


def _page(
    record: dict[str, Any] | Trouble, folder: Path, missing: Callable[[Trouble], str], outline: Outline
) -> ResultPage:
    if isinstance(record, Trouble):
        return ResultPage(writable(missing(record)), {})
    names = record["markdown"]["images"].values()
    return ResultPage.from_entry(record, {name: folder / name for name in names}, outline.get(record["page"]))
