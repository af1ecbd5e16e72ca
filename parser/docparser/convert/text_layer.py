# SPDX-License-Identifier: Apache-2.0
"""Where the text of a page's blocks lies: lines of paragraphs on their ink, cells of tables in their places.

The VLM says what a block's text is and not where its lines are. So lines are looked for in the picture, and the text is
laid onto their ink (``places``). Cells stand where an answer with the option ``places`` says, else in rows of one
height.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from PIL import Image

from docparser.convert.blocks import Block, blocks_of
from docparser.convert.names import writable
from docparser.convert.parts import plain, tables_of
from docparser.html_tables import Table
from docparser.places.atoms import is_right_to_left, text_width
from docparser.places.box import Box
from docparser.places.ink import Line as Printed
from docparser.places.ink import lines_in
from docparser.places.laying import Effort, Laid, is_broken, lay

LEADING = 1.3  # from line to line, in heights of the letters, where no ink tells
LEAST_ROOM = 0.4  # ems of ink for an em of text: with less, what was found are no lines
CELL_HEIGHT = 0.7  # of a table's row
CELL_GAP = 0.04  # of a cell's width
SPOTTING = "spotting"  # one block for the page, whose texts and places stand beside the blocks


@dataclasses.dataclass(frozen=True)
class Line:
    """``text`` without line ends fills ``box``; with ``down``, it runs from top to bottom. ``leftwards``: it is of text
    that runs from right to left."""

    text: str
    box: Box
    down: bool = False
    leftwards: bool = False


def lines_of(entry: Mapping[str, Any], picture: Image.Image, scale: float) -> Iterator[list[Line]]:
    """The lines of each block with text, in reading order. ``entry`` is that of a page in an answer; ``picture`` is
    grey and ``scale`` times as large as the page was when it was parsed."""
    pruned, effort = entry.get("prunedResult") or {}, Effort()
    fields = {said["block_id"]: said["cells"] for said in entry.get("places", ()) if "cells" in said}
    for block in _apart(list(blocks_of(pruned))):
        tables = _tables(block)
        if tables:
            yield _table_lines(tables, block.boxes[0], fields.get(block.id, ()) if len(tables) == 1 else ())
        elif block.label == "vertical_text":
            yield _vertical_lines(block, picture, scale, effort)
        elif block.label != SPOTTING:
            yield _paragraph_lines(block, picture, scale, effort)
    if not any(block.get("block_label") == SPOTTING for block in pruned.get("parsing_res_list") or []):
        return  # every text that was spotted is a block
    spotted = pruned.get("spotting_res") or {}
    for polygon, text in zip(spotted.get("rec_polys") or [], spotted.get("rec_texts") or [], strict=False):
        across, along = [float(x) for x, _ in polygon], [float(y) for _, y in polygon]
        box = Box(min(across), min(along), max(across), max(along))
        yield [Line(_one_line(writable(text)), box, leftwards=is_right_to_left(text))]


def _apart(blocks: list[Block]) -> Iterator[Block]:
    """The blocks; those that follow each other in one box as one, for only that box tells where their text is."""
    for boxes, group in itertools.groupby(blocks, key=lambda block: block.boxes):
        same = list(group)
        if len(same) == 1:
            yield same[0]
        else:
            yield Block("text", boxes, "\n".join(_words(block) for block in same))


def _tables(block: Block) -> list[Table]:
    return [plain(table, exact=block.exact) for table in tables_of(block)[0]]


def _words(block: Block) -> str:
    """What a block says, the cells of its tables apart."""
    tables = _tables(block)
    return " ".join(cell.text for table in tables for cell in table.cells) if tables else block.plain


def _paragraph_lines(block: Block, picture: Image.Image, scale: float, effort: Effort) -> list[Line]:
    text = block.plain
    lines = [line for box in block.boxes for line in lines_in(picture, box, scale)]
    room = sum(line.box.width / line.box.height for line in lines)
    if room < LEAST_ROOM * text_width(text):  # rules, a picture, no ink
        lines = [Printed(line) for box in block.boxes for line in _guessed(text, box)]
    return _dealt(text, lines, effort)


def _vertical_lines(block: Block, picture: Image.Image, scale: float, effort: Effort) -> list[Line]:
    """Columns from the right to the left."""
    columns = [
        column
        for box in block.boxes
        for column in lines_in(picture, box, scale, down=True) or [Printed(box, down=True)]
    ]
    return _dealt(block.plain, columns, effort)


def _guessed(text: str, box: Box) -> list[Box]:
    """As many lines of equal height as the text needs in the box."""
    ems = max(text_width(text), 1.0)
    size = math.sqrt(box.width * box.height / (ems * LEADING)) if box.width > 0 and box.height > 0 else 0
    count = max(1, round(box.height / (size * LEADING)), text.count("\n") + 1) if size else 1
    height = box.height / count
    return [Box(box.left, box.top + height * n, box.right, box.top + height * (n + 0.85)) for n in range(count)]


def _dealt(text: str, lines: list[Printed], effort: Effort) -> list[Line]:
    """``text`` on ``lines``. A word on two lines is found as a whole, on the first."""
    rows: dict[int, tuple[int, int]] = {}  # of each line what stands on it
    before: Laid | None = None
    for laid in lay(text, lines, effort):
        number = max(rows) if before is not None and is_broken(before, laid) else laid.line
        rows[number] = (rows.get(number, laid)[0], laid.end)
        before = laid
    leftwards = is_right_to_left(text)
    found = [Line(_one_line(text[start:end]), lines[number].box, lines[number].down, leftwards)
             for number, (start, end) in rows.items()]  # fmt: skip
    return [line for line in found if line.text]


def _table_lines(tables: list[Table], box: Box, fields: Iterable[dict[str, Any]]) -> list[Line]:
    """A line for each cell, in its field. Without it, columns are as wide as their texts ask for, and rows of one
    height."""
    height, lines = box.height / len(tables), []
    known = {(field["row"], field["column"]): Box(*field["bbox"]) for field in fields}
    for number, table in enumerate(tables):
        wanted = [1.0] * table.width
        for cell in table.cells:
            if cell.columns == 1:
                wanted[cell.column] = max(wanted[cell.column], min(12.0, text_width(cell.text)))
        edges = [0.0]
        for width in wanted:
            edges.append(edges[-1] + width / sum(wanted) * box.width)
        row = height / table.height
        for cell in table.cells:
            text = _one_line(cell.text)
            if not text:
                continue
            top = box.top + number * height + cell.row * row
            field = known.get((cell.row, cell.column)) or Box(
                box.left + edges[cell.column], top, box.left + edges[cell.column + cell.columns], top + cell.rows * row
            )
            across, ems = (1 - CELL_GAP) * field.width, max(text_width(text), 0.1)
            size = min(CELL_HEIGHT * field.height / cell.rows, 2 * across / ems)
            middle = (field.top + field.bottom) / 2
            place = Box(field.left, middle - size / 2, field.left + min(across, size * ems), middle + size / 2)
            lines.append(Line(text, place, leftwards=is_right_to_left(text)))
    return lines


def _one_line(text: str) -> str:
    """Composed (NFC), as people search."""
    return " ".join(unicodedata.normalize("NFC", text).split())
