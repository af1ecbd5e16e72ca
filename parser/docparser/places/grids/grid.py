# SPDX-License-Identifier: Apache-2.0
"""The grid of a table's picture: rows, columns and the lines of print in each cell, found without a model
(docs/decisions/0304).

Rules part rows and columns where a table has them. Where it has none, each line of print is a row, and white that no
row prints on parts columns. A row that prints across such white has a cell of several columns.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from docparser.places.box import Grid, GridCell, PixelBox
from docparser.places.grids import division
from docparser.places.grids.bodies import INKED, NOISE, Body, bodies_in
from docparser.places.grids.division import Edge, Piece, Rules, Span

LEAST_LINE = 7  # px of a line's ink
MOST_CELLS = 400
COVERED = 0.6  # of a side of a cell, where it has a rule
BARE = 0.7  # of a side of a cell: less is no rule
EMPTY_ROW = 0.8  # lines of print: less is between the two lines of a double rule
FILLED = 0.6  # of a field's columns, that each line prints in where the lines are rows
MOST_LINES = 4  # of a cell
CLOSE = 0.85  # of the height of a row with one line: lines of one cell are closer
LEAST_FILLED = 0.3  # of the cells of a table without rules
ONE_LINE = 1.5  # lines of print: ink that is no higher is one line
SPECK = 5  # px of ink that are no print


@dataclasses.dataclass(frozen=True)
class _Field:
    """Between two rules across: its rows of pixels, and the lines of print in them."""

    rows: Body
    lines: list[Body]


@dataclasses.dataclass(frozen=True)
class _Table:
    """A picture, its rules, its print as bool [height, width], and px of a line's ink."""

    image: np.ndarray
    rules: Rules
    letters: np.ndarray
    line: float


def find(image: np.ndarray) -> Grid | None:
    """``image``: grey, uint8 [height, width]. None where no grid of two columns or more can be trusted."""
    height, width = image.shape
    if height < LEAST_LINE or width < 4 * LEAST_LINE:
        return None
    found, line = division.find_rules(image, None), 0.0
    for _ in range(2):  # the height of a line says which runs of ink are rules, and rules hide lines
        lines = _lines(_letters(found))
        line = float(np.median([last - first for first, last in lines])) if lines else 0.0
        if line < LEAST_LINE:
            return None
        found = division.find_rules(image, line)
    letters = _letters(found)
    return _grid(_Table(image, found, letters, line), _lines(letters))


def _letters(found: Rules) -> np.ndarray:
    letters = (found.contrast > INKED) & ~found.pixels
    for first, last in found.rows:
        letters[max(0, first - 1) : last + 1] = False
    return letters


def _lines(letters: np.ndarray) -> list[Body]:
    return bodies_in(np.count_nonzero(letters, axis=1), max(1, round(NOISE * letters.shape[1])))


def _grid(table: _Table, lines: list[Body]) -> Grid | None:
    slots = division.slots(table.rules.columns, table.letters, table.line)
    ruled = len(slots) > 1
    edges = division.edges(slots, [_pieces(table, line) for line in lines], table.line)
    fields = _fields(table, lines, ruled)
    rows = [row for field in fields for row in _rows(table, field, fields, edges, ruled)]
    count = len(rows) * (len(edges) + 1)
    if not edges or not rows or count > MOST_CELLS or (len(rows) < 2 and not ruled):
        return None
    spans = [division.spans(_pieces(table, row), _covered(table, row, edges), edges) for row in rows]
    cells = _cells(table, rows, spans, edges, (slots[0][0], slots[-1][1]))
    filled = sum(bool(cell.lines) for cell in cells)
    if not filled or (not ruled and filled < LEAST_FILLED * count):
        return None
    return Grid(len(rows), len(edges) + 1, table.line, tuple(cells))


def _pieces(table: _Table, rows: Body) -> list[Piece]:
    return division.pieces(table.letters[rows[0] : rows[1]], table.line)


def _fields(table: _Table, lines: list[Body], ruled: bool) -> list[_Field]:
    """From top to bottom, without margins and what is between two lines of a double rule."""
    height = len(table.image)
    tops = [0, *(last for _, last in table.rules.rows)]
    ends = [*(first for first, _ in table.rules.rows), height]
    fields = []
    for top, end in zip(tops, ends):
        inside = [line for line in lines if top <= (line[0] + line[1]) // 2 < end]
        empty = ruled and end - top >= EMPTY_ROW * table.line and _framed(table, (top, end))
        if inside or empty:
            fields.append(_Field((top, end), inside))
    return fields


def _framed(table: _Table, rows: Body) -> bool:
    """Whether the table's rules go on through ``rows``."""
    return all(_has_rule(table, rule, rows) for rule in table.rules.columns[:1] + table.rules.columns[-1:])


def _has_rule(table: _Table, rule: Body, rows: Body) -> bool:
    side = table.rules.down[rows[0] : rows[1], max(0, rule[0] - 1) : rule[1] + 1]
    return bool(side.size and side.any(axis=1).mean() >= COVERED)


def _covered(table: _Table, row: Body, edges: list[Edge]) -> list[bool]:
    return [edge.ruled and _has_rule(table, edge.rule, row) for edge in edges]


def _rows(table: _Table, field: _Field, fields: list[_Field], edges: list[Edge], ruled: bool) -> list[Body]:
    """The rows of a field: one, or as many as it has lines of print."""
    if len(field.lines) < 2 or _wrapped(table, field, fields, edges, ruled):
        return [field.rows]
    middles = [(above[1] + below[0]) // 2 for above, below in zip(field.lines, field.lines[1:])]
    cuts = [field.rows[0], *middles, field.rows[1]]
    return list(zip(cuts, cuts[1:]))


def _wrapped(table: _Table, field: _Field, fields: list[_Field], edges: list[Edge], ruled: bool) -> bool:
    """Whether the lines of a field are those of cells in one row."""
    if len(field.lines) > MOST_LINES or len(fields) < (2 if ruled else 3):
        return False
    single = [other.rows[1] - other.rows[0] for other in fields if len(other.lines) == 1]
    pitch = min(below[0] - above[0] for above, below in zip(field.lines, field.lines[1:]))
    if single and pitch > CLOSE * min(single):
        return False  # they are as far apart as rows
    printed = [_pieces(table, line) for line in field.lines]
    if not ruled and any(first < edge.at < last for row in printed for first, last in row for edge in edges):
        return False  # one of them is a title
    filled = [_columns_of(row, edges) for row in printed]
    sparse = min(map(len, filled)) < FILLED * len(set().union(*filled))
    return sparse or (ruled and len(fields) > 2 and 2 * len(single) >= len(fields))


def _columns_of(row: list[Piece], edges: list[Edge]) -> set[int]:
    return {sum(edge.at <= (first + last) // 2 for edge in edges) for first, last in row}


def _cells(
    table: _Table, rows: list[Body], spans: list[list[Span]], edges: list[Edge], sides: tuple[int, int]
) -> list[GridCell]:
    lefts = [sides[0], *(edge.rule[1] for edge in edges)]
    rights = [*(edge.rule[0] for edge in edges), sides[1]]
    taken: set[tuple[int, int]] = set()
    cells = []
    for number, row in enumerate(spans):
        for first, end in row:
            if (number, first) in taken:
                continue
            left, right = lefts[first], rights[end - 1]
            last = number
            while (
                last + 1 < len(rows)
                and (first, end) in spans[last + 1]
                and _open_below(table, (left, right), rows[last], rows[last + 1])
            ):
                last += 1
                taken.add((last, first))
            area = PixelBox(left, rows[number][0], right, rows[last][1])
            cells.append(GridCell(number, first, last - number + 1, end - first, area, _ink(table, area)))
    return cells


def _open_below(table: _Table, sides: Body, row: Body, below: Body) -> bool:
    """Whether the rule between two rows leaves out this cell, in a table whose columns have rules too."""
    if not table.rules.columns or below[0] <= row[1]:
        return False
    rule = table.rules.across[row[1] - 1 : below[0] + 1].any(axis=0)
    # Where print crosses the middle of a high cell, there is contrast, but not from side to side.
    marked = np.asarray((table.rules.contrast[row[1] - 1 : below[0] + 1] > division.FAINT).any(axis=0))
    return bool(rule.mean() >= division.ACROSS and marked[sides[0] + 1 : sides[1] - 1].mean() < BARE)


def _ink(table: _Table, area: PixelBox) -> tuple[PixelBox, ...]:
    """The boxes of the lines of print in a cell, against the cell's own paper."""
    picture = table.image[area.top : area.bottom, area.left : area.right]
    if not picture.size:
        return ()
    contrast = np.abs(picture.astype(np.int16) - int(np.median(picture)))
    ink = (contrast > INKED) & ~table.rules.pixels[area.top : area.bottom, area.left : area.right]
    if np.count_nonzero(ink) <= SPECK:
        return ()
    rows = np.flatnonzero(ink.any(axis=1))
    lines = [(int(rows[0]), int(rows[-1]) + 1)]
    if lines[0][1] - lines[0][0] > ONE_LINE * table.line:
        lines = bodies_in(np.count_nonzero(ink, axis=1), 0)
    boxes = []
    for top, bottom in lines:
        inked = np.flatnonzero(ink[top:bottom].any(axis=0))
        boxes.append(
            PixelBox(area.left + int(inked[0]), area.top + top, area.left + int(inked[-1]) + 1, area.top + bottom)
        )
    return tuple(boxes)
