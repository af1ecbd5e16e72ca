# SPDX-License-Identifier: Apache-2.0
"""Where the text of a page's blocks lies: lines of paragraphs on their ink, cells of tables in their places.

The VLM says what a block's text is and not where its lines are. So lines are looked for in the picture, and the text is
dealt out to them by their lengths.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import statistics
import unicodedata
from collections.abc import Iterator
from typing import Any

from PIL import Image

from docparser.convert.blocks import Block, Box, blocks_of
from docparser.convert.glyphless_font import text_width
from docparser.convert.html_tables import Table
from docparser.convert.parts import plain, tables_of
from docparser.convert.safe_text import writable

LEAST_CONTRAST = 40  # levels of grey between ground and ink
INK = 0.004  # a row with less of it is empty
THIN, TALL = 0.35, 1.7  # of the usual height: below it are dots and rules, above it lines that touch
LEADING = 1.3  # from line to line, in heights of the letters, where no ink tells
LEAST_ROOM = 0.4  # ems of ink for an em of text: with less, what was found are no lines
CELL_HEIGHT = 0.7  # of a table's row
CELL_GAP = 0.04  # of a cell's width
SPOTTING = "spotting"  # one block for the page, whose texts and places stand beside the blocks
# A line may end after a blank, and beside a character of a script that has no blanks.
BREAKS = re.compile(r"(?<=\s)|(?<=[\u2e80-\u9fff\uac00-\ud7af\uff00-\uffef])|(?=[\u2e80-\u9fff\uac00-\ud7af])")


def ink_lines(picture: Image.Image, box: Box, scale: float) -> list[Box]:
    """The lines in ``box``, from top to bottom, in the box's pixels. ``picture`` is grey and ``scale`` times as large
    as the page that the box belongs to. Empty where nothing can be told."""
    frame = (
        max(0, round(box.left * scale)),
        max(0, round(box.top * scale)),
        min(picture.width, round(box.right * scale)),
        min(picture.height, round(box.bottom * scale)),
    )
    if frame[2] - frame[0] < 4 or frame[3] - frame[1] < 4:
        return []
    ink = _ink(picture.crop(frame))
    if ink is None:
        return []
    # Each row's mean as 32-bit float: of 8 bits, a short line in a wide box would leave nothing.
    rows = ink.convert("F").resize((1, ink.height), Image.Resampling.BOX).tobytes()
    means = memoryview(rows).cast("f")
    lines = []
    for top, bottom in _runs([mean > 255 * INK for mean in means]):
        inside = ink.crop((0, top, ink.width, bottom)).getbbox()
        left, right = (inside[0], inside[2]) if inside else (0, ink.width)
        lines.append(
            Box(
                (frame[0] + left) / scale,
                (frame[1] + top) / scale,
                (frame[0] + right) / scale,
                (frame[1] + bottom) / scale,
            )
        )
    return lines


def _ink(crop: Image.Image) -> Image.Image | None:
    """White where there is ink; None where the crop has no contrast. Text may be dark or bright."""
    levels = crop.histogram()
    half, sums = crop.width * crop.height / 2, itertools.accumulate(levels)
    ground = next(level for level, seen in enumerate(sums) if seen >= half)
    used = [level for level, count in enumerate(levels) if count]
    contrast = max(ground - used[0], used[-1] - ground)
    if contrast < LEAST_CONTRAST:
        return None
    return crop.point([255 if abs(level - ground) > contrast * 0.4 else 0 for level in range(256)])


def _runs(inked: list[bool]) -> list[tuple[int, int]]:
    """Rows of ink as lines: dots join their line, lines that touch are cut into equal parts."""
    runs: list[list[int]] = []
    for row, has in enumerate(inked):
        if has and runs and runs[-1][1] == row:
            runs[-1][1] = row + 1
        elif has:
            runs.append([row, row + 1])
    if not runs:
        return []
    usual = statistics.median(sorted(end - begin for begin, end in runs)[len(runs) // 2 :])
    whole: list[list[int]] = []
    for begin, end in runs:
        thin = end - begin < THIN * usual
        if whole and begin - whole[-1][1] < THIN * usual and (thin or whole[-1][1] - whole[-1][0] < THIN * usual):
            whole[-1][1] = end  # the dots of a line above it, or its marks below it
        else:
            whole.append([begin, end])
    kept = [run for run in whole if run[1] - run[0] >= THIN * usual] or whole
    height = statistics.median(end - begin for begin, end in kept)
    lines = []
    for begin, end in kept:
        parts = max(1, round((end - begin) / height)) if end - begin > TALL * height else 1
        lines += [
            (begin + (end - begin) * part // parts, begin + (end - begin) * (part + 1) // parts)
            for part in range(parts)
        ]
    return lines


@dataclasses.dataclass(frozen=True)
class Line:
    """``text`` without line ends fills ``box``; with ``down``, it runs from top to bottom."""

    text: str
    box: Box
    down: bool = False


def lines_of(pruned: dict[str, Any], picture: Image.Image, scale: float) -> Iterator[list[Line]]:
    """The lines of each block with text, in reading order. ``picture`` is grey and ``scale`` times as large as the page
    was when it was parsed."""
    for block in _apart(list(blocks_of(pruned))):
        tables = _tables(block)
        if tables:
            yield _table_lines(tables, block.boxes[0])
        elif block.label == "vertical_text":
            yield _vertical_lines(block, picture, scale)
        elif block.label != SPOTTING:
            yield _paragraph_lines(block, picture, scale)
    if not any(block.get("block_label") == SPOTTING for block in pruned.get("parsing_res_list") or []):
        return  # every text that was spotted is a block
    spotted = pruned.get("spotting_res") or {}
    for polygon, text in zip(spotted.get("rec_polys") or [], spotted.get("rec_texts") or [], strict=False):
        across, along = [float(x) for x, _ in polygon], [float(y) for _, y in polygon]
        yield [Line(_one_line(writable(text)), Box(min(across), min(along), max(across), max(along)))]


def _apart(blocks: list[Block]) -> Iterator[Block]:
    """The blocks; those that follow each other in one box as one, for only that box tells where their text is."""
    for boxes, group in itertools.groupby(blocks, key=lambda block: block.boxes):
        same = list(group)
        if len(same) == 1:
            yield same[0]
        else:
            yield Block("text", boxes, "\n".join(_words(block) for block in same))


def _tables(block: Block) -> list[Table]:
    return [plain(table) for table in tables_of(block)[0]]


def _words(block: Block) -> str:
    """What a block says, the cells of its tables apart."""
    tables = _tables(block)
    return " ".join(cell.text for table in tables for cell in table.cells) if tables else block.plain


def _paragraph_lines(block: Block, picture: Image.Image, scale: float) -> list[Line]:
    text = block.plain
    boxes = [line for box in block.boxes for line in ink_lines(picture, box, scale)]
    if sum(box.width / box.height for box in boxes) < LEAST_ROOM * text_width(text):  # rules, a picture, no ink
        boxes = [line for box in block.boxes for line in _guessed(text, box)]
    return _dealt(text, boxes)


def _vertical_lines(block: Block, picture: Image.Image, scale: float) -> list[Line]:
    """Columns from the right to the left: rows of the picture when it lies on its side."""
    lying, width = picture.transpose(Image.Transpose.ROTATE_90), picture.width / scale
    boxes = []
    for box in block.boxes:
        turned = Box(box.top, width - box.right, box.bottom, width - box.left)
        for line in ink_lines(lying, turned, scale) or [turned]:
            boxes.append(Box(width - line.bottom, line.left, width - line.top, line.right))
    return [dataclasses.replace(line, down=True) for line in _dealt(block.plain, boxes)]


def _guessed(text: str, box: Box) -> list[Box]:
    """As many lines of equal height as the text needs in the box."""
    ems = max(text_width(text), 1.0)
    size = math.sqrt(box.width * box.height / (ems * LEADING)) if box.width > 0 and box.height > 0 else 0
    count = max(1, round(box.height / (size * LEADING)), text.count("\n") + 1) if size else 1
    height = box.height / count
    return [Box(box.left, box.top + height * n, box.right, box.top + height * (n + 0.85)) for n in range(count)]


def _dealt(text: str, boxes: list[Box]) -> list[Line]:
    """``text`` on the lines in ``boxes``: as it is broken, where it has as many lines, else by their lengths."""
    written = [line for line in map(_one_line, text.splitlines()) if line]
    if len(written) == len(boxes) or not boxes:
        return [Line(line, box) for line, box in zip(written, boxes, strict=False)]
    pieces = [piece for piece in BREAKS.split(_one_line(text)) if piece]
    room = sum(max(box.width, box.height) for box in boxes)
    widths = list(map(text_width, pieces))
    whole, due, reached, end, lines = sum(widths), 0.0, 0.0, 0, []
    for box in boxes:
        due += max(box.width, box.height) / room * whole
        begin = end
        while end < len(pieces) and (reached + widths[end] / 2 <= due or box is boxes[-1]):
            reached += widths[end]
            end += 1
        if line := "".join(pieces[begin:end]).strip():
            lines.append(Line(line, box))
    return lines


def _table_lines(tables: list[Table], box: Box) -> list[Line]:
    """A line for each cell. Columns are as wide as their texts ask for, rows are of one height."""
    height, lines = box.height / len(tables), []
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
            left, right = box.left + edges[cell.column], box.left + edges[cell.column + cell.columns]
            right -= CELL_GAP * (right - left)
            size = min(CELL_HEIGHT * row, 2 * (right - left) / max(text_width(text), 0.1))
            middle = box.top + number * height + (cell.row + cell.rows / 2) * row
            right = min(right, left + size * max(text_width(text), 0.1))
            lines.append(Line(text, Box(left, middle - size / 2, right, middle + size / 2)))
    return lines


def _one_line(text: str) -> str:
    """Composed (NFC), as people search."""
    return " ".join(unicodedata.normalize("NFC", text).split())
