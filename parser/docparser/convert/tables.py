# SPDX-License-Identifier: Apache-2.0
"""The tables of a document as cells, whether they were written as HTML or with pipes."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser

from docparser.convert.document import Document
from docparser.convert.mathematics import Formulas
from docparser.convert.to_html import markdown_html

MAX_SPAN = 200


@dataclasses.dataclass(frozen=True)
class Cell:
    """``row`` and ``column`` count from 0; ``rows`` and ``columns`` are how many it covers."""

    row: int
    column: int
    rows: int
    columns: int
    text: str
    header: bool


@dataclasses.dataclass(frozen=True)
class Table:
    """``page`` counts from 1."""

    page: int
    cells: list[Cell]


def find_tables(document: Document) -> list[Table]:
    tables = []
    for number, page in enumerate(document.pages, 1):
        formulas = Formulas()
        reader = _Reader()
        reader.feed(markdown_html(formulas.take_out(page.text)))
        reader.close()
        for cells in reader.tables:
            plain = [dataclasses.replace(cell, text=formulas.put_back_latex(cell.text)) for cell in cells]
            tables.append(Table(number, plain))
    return tables


class _Reader(HTMLParser):
    """Places cells as HTML does (the table model of the HTML standard, without its rarer corners)."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[list[Cell]] = []
        self._cells: list[Cell] | None = None
        self._taken: set[tuple[int, int]] = set()
        self._row = -1
        self._open: tuple[bool, int, int] | None = None
        self._text: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "table" and self._cells is None:
            self._cells, self._taken, self._row = [], set(), -1
        elif self._cells is None:
            return
        elif tag == "tr":
            self._close_cell()
            self._row += 1
        elif tag in ("td", "th"):
            self._close_cell()
            spans = dict(attributes)
            self._open = tag == "th", _span(spans.get("rowspan")), _span(spans.get("colspan"))
            self._text = []
        elif tag == "br":
            self._text.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "table"):
            self._close_cell()
        if tag == "table" and self._cells is not None:
            if self._cells:
                self.tables.append(self._cells)
            self._cells = None

    def handle_data(self, data: str) -> None:
        self._text.append(data)

    def close(self) -> None:
        super().close()
        self.handle_endtag("table")  # one that was never closed

    def _close_cell(self) -> None:
        if self._open is None:
            return
        header, rows, columns = self._open
        self._open = None
        row, column = max(self._row, 0), 0
        while (row, column) in self._taken:
            column += 1
        self._taken.update((row + down, column + right) for down in range(rows) for right in range(columns))
        self._cells.append(Cell(row, column, rows, columns, "".join(self._text).strip(), header))


def _span(value: str | None) -> int:
    return min(max(int(value), 1), MAX_SPAN) if value and value.strip().isdecimal() else 1
