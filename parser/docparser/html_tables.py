# SPDX-License-Identifier: Apache-2.0
"""Reads tables in HTML: their cells with places. PaddleX writes that HTML, from the OTSL that the VLM answers.

Needs the standard library only.
"""

from __future__ import annotations

import bisect
import dataclasses
from html.parser import HTMLParser

MAX_SPAN = 200  # a model can write any number; no printed cell covers more rows or columns
MAX_COVERED = 100_000  # places that the spans of a table cover in all; further spans are taken for 1


@dataclasses.dataclass(frozen=True)
class Cell:
    """``row`` and ``column`` count from 0; ``rows`` and ``columns`` are how many the cell covers. ``header``: it names
    what stands below it, or beside it. ``place``: its page (from 1) and its box there (left, top, right, bottom), where
    they are known."""

    row: int
    column: int
    rows: int = 1
    columns: int = 1
    text: str = ""
    header: bool = False
    place: tuple[int, float, float, float, float] | None = None


@dataclasses.dataclass(frozen=True)
class Table:
    """``cells`` in the order of the HTML; no two of them overlap. In each row and in each column a cell begins, so a
    table has no more rows or columns than cells."""

    cells: list[Cell]

    @property
    def height(self) -> int:
        """Rows."""
        return max((cell.row + cell.rows for cell in self.cells), default=0)

    @property
    def width(self) -> int:
        """Columns."""
        return max((cell.column + cell.columns for cell in self.cells), default=0)

    @property
    def head(self) -> int:
        """How many rows, from the first, have headers alone; a cell without text may be any. Some row is below them."""
        others = [cell.row for cell in self.cells if cell.text and not cell.header]
        named = [cell.row + cell.rows for cell in self.cells if cell.header]
        return min(min(others, default=1), max(named, default=0), max(0, self.height - 1))

    def rows(self) -> list[list[str]]:
        """The texts of each row, a line each in its column; empty where a cell goes on."""
        width = self.width  # looks at every cell
        rows = [[""] * width for _ in range(self.height)]
        for cell in self.cells:
            rows[cell.row][cell.column] = " ".join(cell.text.split())
        return rows

    def with_head(self, rows: int) -> Table:
        """With the cells that begin in the first ``rows`` rows as headers."""
        return Table([dataclasses.replace(cell, header=cell.header or cell.row < rows) for cell in self.cells])


def read_tables(html: str) -> list[Table]:
    """Every table in ``html`` that has a cell, in order. The text of a cell has no blanks around it; ``<br>`` is a
    newline.

    A model wrote the HTML, so end tags may be missing and spans may be wrong.
    """
    reader = TableReader()
    reader.feed(html)
    reader.close()
    return reader.tables()


class TableReader(HTMLParser):
    """Collects tables. A table inside a cell is a table of its own."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._builders: list[_TableBuilder] = []
        self._open: list[_TableBuilder] = []

    def tables(self) -> list[Table]:
        """Those with a cell, in the order of their beginnings."""
        return [table for table in (builder.table() for builder in self._builders) if table.cells]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._open.append(_TableBuilder())
            self._builders.append(self._open[-1])
        elif not self._open:
            return
        elif tag == "tr":
            self._open[-1].begin_row()
        elif tag in ("thead", "tbody", "tfoot"):
            self._open[-1].in_head = tag == "thead"
        elif tag in ("td", "th"):
            spans = dict(attrs)
            rows, columns = _span(spans.get("rowspan")), _span(spans.get("colspan"))
            self._open[-1].begin_cell(rows, columns, header=tag == "th" or self._open[-1].in_head)
        elif tag == "br":
            self._open[-1].add_text("\n")

    def handle_endtag(self, tag: str) -> None:
        if not self._open:
            return
        if tag == "table":
            self._open.pop().end_cell()
        elif tag in ("td", "th", "tr"):
            self._open[-1].end_cell()
        elif tag == "thead":
            self._open[-1].in_head = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self._open[-1].add_text(data)


@dataclasses.dataclass(frozen=True, order=True)
class _Above:
    """Columns from ``start`` to before ``end`` that a cell covers down to the row ``last``."""

    start: int
    end: int
    last: int


class _TableBuilder:
    """Places cells as the table model of the HTML standard does, without its rarer corners.

    The time grows with the number of cells: a cell is looked at once in each row that it covers.
    """

    def __init__(self) -> None:
        self._cells: list[Cell] = []
        self._texts: list[list[str]] = []
        self._row = -1
        self._above: list[_Above] = []  # from earlier rows, in order
        self._here: list[_Above] = []  # of this row, in order
        self._passed = 0  # those of `_above` that lie before the next cell
        self._column = 0
        self._in_cell = False
        self.in_head = False

    def begin_row(self) -> None:
        self._row += 1
        self._above = sorted(cell for cell in self._above + self._here if cell.last >= self._row)
        self._here, self._passed, self._column = [], 0, 0
        self._in_cell = False

    def begin_cell(self, rows: int, columns: int, *, header: bool) -> None:
        self._row = max(self._row, 0)
        while self._passed < len(self._above) and self._above[self._passed].start <= self._column:
            self._column = max(self._column, self._above[self._passed].end)
            self._passed += 1
        # A cell that would run into a cell from a row above ends before it.
        if self._passed < len(self._above):
            columns = min(columns, self._above[self._passed].start - self._column)
        self._cells.append(Cell(self._row, self._column, rows, columns, header=header))
        self._texts.append([])
        if rows > 1:
            self._here.append(_Above(self._column, self._column + columns, self._row + rows - 1))
        self._column += columns
        self._in_cell = True

    def add_text(self, text: str) -> None:
        if self._in_cell:
            self._texts[-1].append(text)

    def end_cell(self) -> None:
        self._in_cell = False

    def table(self) -> Table:
        rows = sorted({cell.row for cell in self._cells})
        columns = sorted({cell.column for cell in self._cells})
        covered, cells = 0, []
        for cell, text in zip(self._cells, self._texts, strict=True):
            row, column = bisect.bisect_left(rows, cell.row), bisect.bisect_left(columns, cell.column)
            height = bisect.bisect_left(rows, cell.row + cell.rows) - row
            width = bisect.bisect_left(columns, cell.column + cell.columns) - column
            covered += height * width - 1
            if covered > MAX_COVERED:
                height = width = 1
            cells.append(Cell(row, column, height, width, "".join(text).strip(), cell.header))
        return Table(cells)


def _span(value: str | None) -> int:
    digits = (value or "").strip()
    if not digits.isdecimal():
        return 1
    return min(max(int(digits), 1), MAX_SPAN) if len(digits) <= 6 else MAX_SPAN
