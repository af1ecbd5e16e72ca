# SPDX-License-Identifier: Apache-2.0
"""Characters put together by where they stand: words, lines, the text of a block."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from docparser.own_text.characters import Characters

SAME_LINE = 0.3  # ems between baselines
BLANK = 0.15  # ems


class Box(NamedTuple):
    """Pixels of the page, from its upper left corner."""

    left: float
    top: float
    right: float
    bottom: float


@dataclasses.dataclass(frozen=True)
class Word:
    """``script`` is 1 where the word, or its end that is a Word of its own then, is raised (a superscript), -1 where it
    is lowered, 0 on the line. ``joined``: no blank stands before it."""

    text: str
    box: Box
    script: int = 0
    joined: bool = False


@dataclasses.dataclass(frozen=True)
class Line:
    """``text`` has one blank between words, in the order in which they are read. ``down``: the line is a column of
    vertical writing. ``broken``: it ends in a hyphen that is there for the line's end only; ``text`` still has it."""

    text: str
    box: Box
    words: tuple[Word, ...]
    down: bool = False
    broken: bool = False


def lines_of(characters: Characters) -> list[Line]:
    """The lines of one block, from top to bottom (columns of vertical writing: from right to left)."""
    each = characters.each
    rows: list[list[int]] = []
    for index in np.argsort(each["origin"][:, 1], kind="stable"):
        here = each["origin"][index, 1]
        if (
            rows
            and here - each["origin"][rows[-1][0], 1] <= SAME_LINE * characters.styles["size"][each["style"][index]]
        ):
            rows[-1].append(int(index))
        else:
            rows.append([int(index)])
    return [_line(characters, sorted(row, key=lambda index: each["box"][index, 0])) for row in rows]


def _line(characters: Characters, row: list[int]) -> Line:
    each, words = characters.each, []
    began = 0
    for at in range(1, len(row) + 1):
        if at < len(row):
            gap = each["box"][row[at], 0] - each["box"][row[at - 1], 2]
            if gap <= BLANK * characters.styles["size"][each["style"][row[at]]]:
                continue
        part = each[row[began:at]]
        words.append(Word("".join(map(chr, part["code"])), _around(part["box"])))
        began = at
    return Line(" ".join(word.text for word in words), _around(each["box"][row]), tuple(words))


def _around(boxes: np.ndarray) -> Box:
    left, top = boxes[:, :2].min(0)
    right, bottom = boxes[:, 2:].max(0)
    return Box(float(left), float(top), float(right), float(bottom))
