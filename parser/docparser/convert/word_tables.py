# SPDX-License-Identifier: Apache-2.0
"""A table of a Word file, written as XML: python-docx looks through all cells for each one that it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docx.oxml import OxmlElement
from docx.oxml.ns import qn

from docparser.convert.html_tables import Cell, Table

MOST_COLUMNS = 63  # Word opens no table with more
TEXT_WIDTH = 9360  # twentieths of a point: 6.5 inches

Fill = Callable[[Any, Cell], None]  # writes a cell's text into the ``w:p`` that it gets


def table_element(table: Table, fill: Fill) -> Any:
    """``w:tbl`` with merged cells where a cell covers several, header cells' rows repeated on each page."""
    element = _node("tbl")
    properties = _in(element, "tblPr")
    _in(properties, "tblStyle", val="TableGrid")
    _in(properties, "tblW", w="0", type="auto")
    grid = _in(element, "tblGrid")
    width = table.width  # looks at every cell
    for _ in range(width):
        _in(grid, "gridCol", w=str(TEXT_WIDTH // width))
    rows: list[dict[int, tuple[Cell, bool]]] = [{} for _ in range(table.height)]
    for cell in table.cells:
        for row in range(cell.row, cell.row + cell.rows):
            rows[row][cell.column] = cell, row == cell.row
    heads = True
    for row_cells in rows:
        line = _in(element, "tr")
        heads = heads and bool(row_cells) and all(cell.header for cell, _ in row_cells.values())
        if heads:
            _in(_in(line, "trPr"), "tblHeader")
        column = 0
        while column < width:
            placed, begins = row_cells.get(column, (None, False))
            _write(_in(line, "tc"), placed, begins, fill)
            column += placed.columns if placed else 1
    return element


def _write(target: Any, cell: Cell | None, begins: bool, fill: Fill) -> None:
    properties = _in(target, "tcPr")
    if cell and cell.columns > 1:
        _in(properties, "gridSpan", val=str(cell.columns))
    if cell and cell.rows > 1:
        _in(properties, "vMerge", val="restart" if begins else "continue")
    paragraph = _in(target, "p")
    if cell and begins:
        fill(paragraph, cell)


def _node(name: str, **attributes: str) -> Any:
    node = OxmlElement(f"w:{name}")
    for attribute, value in attributes.items():
        node.set(qn(f"w:{attribute}"), value)
    return node


def _in(parent: Any, name: str, **attributes: str) -> Any:
    node = _node(name, **attributes)
    parent.append(node)
    return node
