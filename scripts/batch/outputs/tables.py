# SPDX-License-Identifier: Apache-2.0
"""Tables as the parser writes them, in HTML: rows, cells, and cells that span several."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

LARGEST_SPAN = 1000  # a model can write any number


@dataclass
class Cell:
    """`row` and `column` count from 0."""

    row: int
    column: int
    rows: int = 1
    columns: int = 1
    text: str = ""


@dataclass
class Table:
    cells: list[Cell] = field(default_factory=list)

    @property
    def height(self) -> int:
        return max((cell.row + cell.rows for cell in self.cells), default=0)

    @property
    def width(self) -> int:
        return max((cell.column + cell.columns for cell in self.cells), default=0)


class TableReader(HTMLParser):
    """Collects every table of a piece of HTML; forgiving, since a model wrote it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[Table] = []
        self._row = -1
        self._taken: set[tuple[int, int]] = set()
        self._cell: Cell | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append(Table())
            self._row, self._taken, self._cell = -1, set(), None
        elif not self.tables:
            return
        elif tag == "tr":
            self._row, self._cell = self._row + 1, None
        elif tag in ("td", "th"):
            self._begin_cell(dict(attrs))
        elif tag == "br" and self._cell:
            self._cell.text += "\n"

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "table"):
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self._cell:
            self._cell.text += data

    def _begin_cell(self, attributes: dict[str, str | None]) -> None:
        self._row = max(self._row, 0)
        column = 0
        while (self._row, column) in self._taken:
            column += 1
        rows, columns = span(attributes.get("rowspan")), span(attributes.get("colspan"))
        # A span that would run into a cell from the row above is cut before it.
        while columns > 1 and any((self._row, column + more) in self._taken for more in range(columns)):
            columns -= 1
        self._cell = Cell(self._row, column, rows, columns)
        self._taken |= {(self._row + down, column + right) for down in range(rows) for right in range(columns)}
        self.tables[-1].cells.append(self._cell)


def span(text: str | None) -> int:
    return min(int(text), LARGEST_SPAN) if text and text.isdecimal() and int(text) > 0 else 1


def read_tables(html: str) -> list[Table]:
    """Every table in the HTML that has a cell, blanks around texts removed."""
    reader = TableReader()
    reader.feed(html)
    reader.close()
    found = [table for table in reader.tables if table.cells]
    for table in found:
        # Rows that only a span promises are not there.
        last = max(cell.row for cell in table.cells)
        for cell in table.cells:
            cell.text = cell.text.strip()
            cell.rows = min(cell.rows, last - cell.row + 1)
    return found
