# SPDX-License-Identifier: Apache-2.0
"""Where the words, lines and cells of a page's blocks stand: what they are found by, and the texts laid on it. Loads no
PaddleX.

What they are found by is known before the texts are: a block's lines with their ink, or with the words that the page
says there itself; a table's grid. It is plain data, ``Ground``, which is kept with the frozen page. Laying the texts on
it computes over what the VLM wrote, so it belongs into a child process.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import cv2
import numpy as np
from PIL import Image
from rapidfuzz.distance import Levenshtein

from docparser.contract.answers import Block, BlockPlaces, CellPlace, TextPlace
from docparser.contract.schemas import Places
from docparser.formula_signs import formulas_in
from docparser.html_tables import read_tables
from docparser.own_text.lines import Line as OwnLine
from docparser.page.alignment import letters_of
from docparser.page.question import TABLE_PROMPT, TEXT_PROMPT
from docparser.places.atoms import Atom, atoms_of, is_ideograph, text_width
from docparser.places.box import Box, around
from docparser.places.grids import grid
from docparser.places.ink import Line, cut, lines_in
from docparser.places.laying import Effort, Laid, lay

if TYPE_CHECKING:  # it loads PaddleX
    from docparser.page.blocks import Blocks

MOST_RUNS = 30_000  # of a page's ink; more is a pattern
VERTICAL = "vertical_text"
Ground = dict[str, Any]
# What a text may have that is not printed: PaddleX's marks of titles, pictures and places, and the VLM's of emphasis.
MARKUP = re.compile(r"\A#{1,7}\s|!\[\]\([^)\n]*\)|</?[A-Za-z][^<>]{0,300}>|\*\*")
LEAST_MATCHED = 0.6  # of a word's letters, that the page says itself
MOST_LETTERS = 20_000  # of a block
DIGITS = 1


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


def places_of(blocks: Sequence[Block], grounds: Sequence[Ground | None], kind: Places) -> list[BlockPlaces]:
    """Of those where something is found. ``grounds``: of each block."""
    found: list[BlockPlaces] = []
    effort = Effort()
    for block, ground in zip(blocks, grounds, strict=True):
        content = block["block_content"]
        if not ground or not content:
            continue
        said: BlockPlaces = {"block_id": block["block_id"], "source": "page" if "words" in ground else "ink"}
        if "rows" in ground:
            cells = _cells(content, ground)
            if cells:
                said["cells"] = cells
                found.append(said)
        elif kind != "cells":
            skipped = [match.span() for match in MARKUP.finditer(content)]
            if "words" in ground:
                laid = _said(content, skipped, ground)
            else:
                laid = lay(content, lines_of(ground), effort, skipped)
            texts = _texts(content, laid, kind)
            if texts:
                said["lines" if kind == "lines" else "words"] = texts
                found.append(said)
    return found


def _texts(content: str, laid: Sequence[Laid], kind: Places) -> list[TextPlace]:
    """What the ink bears out."""
    groups: list[list[Laid]] = []
    for one in laid:
        if not one.sure:
            continue
        if groups and groups[-1][-1].line == one.line and (kind == "lines" or _goes_on(content, groups[-1][-1], one)):
            groups[-1].append(one)
        else:
            groups.append([one])
    return [_place(content, group) for group in groups]


def _goes_on(content: str, before: Laid, after: Laid) -> bool:
    """Whether the two are of one word."""
    return before.end == after.start and not any(map(is_ideograph, (content[before.end - 1], content[after.start])))


def _place(content: str, group: Sequence[Laid]) -> TextPlace:
    start, end = group[0].start, group[-1].end
    return {"text": content[start:end], "bbox": _sides(around(one.box for one in group)), "start": start, "end": end}


def _sides(box: Box) -> list[float]:
    sides = (round(side, DIGITS) for side in box)
    return [int(side) if side == int(side) else side for side in sides]


def _cells(content: str, ground: Ground) -> list[CellPlace]:
    """Of a table with as many rows and columns as its picture has."""
    tables, rows, columns = read_tables(content), ground["rows"], ground["columns"]
    if len(tables) != 1 or (tables[0].height, tables[0].width) != (len(rows), len(columns)):
        return []
    return [
        {
            "row": cell.row,
            "column": cell.column,
            "rowSpan": cell.rows,
            "columnSpan": cell.columns,
            "bbox": [
                columns[cell.column][0],
                rows[cell.row][0],
                columns[cell.column + cell.columns - 1][1],
                rows[cell.row + cell.rows - 1][1],
            ],
            "text": cell.text,
        }
        for cell in tables[0].cells
    ]


# ---- what the page says itself


class _Letter(NamedTuple):
    """The letter at ``at`` of the word ``word`` on ``line``."""

    line: int
    word: int
    at: int


def _said(content: str, skipped: Sequence[tuple[int, int]], ground: Ground) -> list[Laid]:
    """The words of ``content`` where the page says the same."""
    ours, at = _letters(content, skipped)
    theirs, letters = [], []
    for number, line in enumerate(ground["words"]):
        for word, (text, _, _) in enumerate(line):
            for place, sign in enumerate(text):
                for form in letters_of(sign):
                    theirs.append(form)
                    letters.append(_Letter(number, word, place))
    if max(len(ours), len(theirs)) > MOST_LETTERS:
        return []
    matched = {
        at[op.src_start + step]: letters[op.dest_start + step]
        for op in Levenshtein.opcodes(ours, theirs)
        if op.tag == "equal"
        for step in range(op.src_end - op.src_start)
    }
    starts = sorted(matched)
    counted = sorted(set(at))
    return [laid for atom in atoms_of(content, skipped) for laid in _of_word(atom, matched, starts, counted, ground)]


def _letters(content: str, skipped: Sequence[tuple[int, int]]) -> tuple[list[str], list[int]]:
    """Those that count, and where each stands. Formulas have none, for the page says them otherwise."""
    found: list[str] = []
    at: list[int] = []
    unsaid = sorted([*skipped, *(formula.span() for formula in formulas_in(content))])
    begin = 0
    for first, last in [*unsaid, (len(content), len(content))]:
        for place in range(begin, first):
            for form in letters_of(content[place]):
                found.append(form)
                at.append(place)
        begin = max(begin, last)
    return found, at


def _of_word(
    atom: Atom, matched: dict[int, _Letter], starts: Sequence[int], counted: Sequence[int], ground: Ground
) -> Iterator[Laid]:
    """The word, or its parts on several lines; nothing where the page says too little of it."""
    there = starts[bisect.bisect_left(starts, atom.start) : bisect.bisect_left(starts, atom.end)]
    letters = bisect.bisect_left(counted, atom.end) - bisect.bisect_left(counted, atom.start)
    if not there or len(there) < LEAST_MATCHED * letters:
        return
    parts = [list(part) for _, part in itertools.groupby(there, key=lambda place: matched[place].line)]
    ends = [atom.start, *(part[0] for part in parts[1:]), atom.end]
    for part, start, end in zip(parts, ends, ends[1:], strict=False):
        line = matched[part[0]].line
        boxes = []
        for word, places in itertools.groupby(part, key=lambda place: matched[place].word):
            inside = [matched[place].at for place in places]
            boxes.append(_part(ground["words"][line][word], min(inside), max(inside) + 1))
        yield Laid(start, end, line, around(boxes), True)


def _part(word: Sequence, first: int, last: int) -> Box:
    """The box of some letters of a word, by their widths."""
    text, sides, down = word
    box, whole = Box(*sides), text_width(text) or 1.0
    if (first, last) == (0, len(text)):
        return box
    return cut(box, [text_width(text[:first]) / whole, text_width(text[:last]) / whole], down)[0]
