# SPDX-License-Identifier: Apache-2.0
"""What places are found by, before the texts are known: a block's lines with their ink, or with the words that the page
says there itself; a table's grid. Plain data, which is kept with the frozen page; ``page.places`` reads it. Loads no
PaddleX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from PIL import Image

from docparser.own_text.lines import Line as OwnLine
from docparser.page.question import TABLE_PROMPT, TEXT_PROMPT
from docparser.places.box import Box
from docparser.places.grids import grid
from docparser.places.ink import Line, lines_in

if TYPE_CHECKING:  # it loads PaddleX
    from docparser.page.blocks import Blocks

MOST_RUNS = 30_000  # of a page's ink; more is a pattern
VERTICAL = "vertical_text"
Ground = dict[str, Any]


def ground_of(
    page: np.ndarray,
    blocks: Blocks,
    own_lines: Mapping[int, Sequence[OwnLine]],
    *,
    cells_only: bool,
) -> dict[int, Ground]:
    """By the numbers of the blocks that are texts or tables, where something is found. ``page``: uint8 ``[height,
    width, 3]``, blue first. ``own_lines``: what the page says of blocks, by their numbers, and is true."""
    grey = cv2.cvtColor(page, cv2.COLOR_BGR2GRAY)
    picture, left = Image.fromarray(grey), MOST_RUNS
    found: dict[int, Ground] = {}
    for number, question in blocks.questions.items():
        if question.prompt == TABLE_PROMPT:
            if table := ground_of_table(grey, blocks.cut[number]["box"]):
                found[number] = table
        elif question.prompt == TEXT_PROMPT and not cells_only:
            if said := own_lines.get(number):
                found[number] = ground_of_words(said)
                continue
            down = blocks.cut[number]["label"] == VERTICAL
            lines = [
                line
                for part in blocks.joined(number)
                for line in lines_in(picture, Box(*map(float, blocks.cut[part]["box"])), 1.0, down=down)
            ]
            left -= sum(len(line.runs) for line in lines)
            if lines and left >= 0:
                found[number] = ground_of_lines(lines)
    return found


def lines_of(ground: Ground) -> list[Line]:
    """Those that were found by their ink."""
    return [Line(Box(*box), tuple(Box(*run) for run in runs), down) for box, runs, down in ground["ink"]]


def ground_of_lines(lines: Iterable[Line]) -> Ground:
    return {"ink": [[list(line.box), [list(run) for run in line.runs], line.down] for line in lines]}


def ground_of_words(lines: Iterable[OwnLine]) -> Ground:
    """Of what the page says itself."""
    return {
        "words": [[[word.text, [float(side) for side in word.box], line.down] for word in line.words] for line in lines]
    }


def ground_of_table(grey: np.ndarray, box: Sequence[float]) -> Ground | None:
    """Where the rows and columns of the table in ``box`` are; None where no grid is found."""
    left, top, right, bottom = (max(0, int(side)) for side in box)
    table = grid.find(grey[top:bottom, left:right])
    if table is None:
        return None
    rows: dict[int, list[int]] = {}
    columns: dict[int, list[int]] = {}
    for cell in table.cells:
        first, above, last, below = cell.area
        if cell.rows == 1:
            _widen(rows, cell.row, top + above, top + below)
        if cell.columns == 1:
            _widen(columns, cell.column, left + first, left + last)
    if len(rows) != table.rows or len(columns) != table.columns:
        return None  # a row or a column of spanning cells alone
    return {"rows": [rows[row] for row in sorted(rows)], "columns": [columns[column] for column in sorted(columns)]}


def _widen(ends: dict[int, list[int]], at: int, low: int, high: int) -> None:
    known = ends.setdefault(at, [low, high])
    known[:] = min(known[0], low), max(known[1], high)
