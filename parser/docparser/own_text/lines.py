# SPDX-License-Identifier: Apache-2.0
"""Characters put together by where they stand: words, lines, the text of a block."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from docparser.own_text.characters import AFTER_BLANK, PIECE, Characters

ABOVE, BELOW = 0.75, 0.2  # ems from the baseline to the ends of a line's band; a line has what has its middle in it
SHIFTED, SMALLER = 0.1, 0.85  # ems off the line's baseline, and of the line's letters: raised or lowered
GAP, WIDE_GAP = 0.05, 0.35  # ems between letters: a blank that the file has; a blank that it does not have
WIDE_GAP_OF_IDEOGRAPHS = 0.9
OVER = 0.5  # of a letter's width: two that lie over each other as far have no order
COLUMN = 0.5  # of the steps from character to character: more of them downwards, and the writing is vertical
IDEOGRAPHS = re.compile(r"[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef]")
SPACED = re.compile(r"[\uac00-\ud7af]")  # Hangul has blanks between words
HYPHENS = "-\u2010\u00ad"


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
    if not len(characters):
        return []
    em = np.maximum(characters.styles["size"][characters.each["style"]], 0.01)
    down = _vertical(characters.each, em)
    rows = _columns(characters.each, em) if down else _rows(characters.each, em)
    lines = [_line(characters.each[row], em[row], down) for row in rows]
    return [
        dataclasses.replace(line, broken=_broken(line.text, following.text)) if following else line
        for line, following in zip(lines, [*lines[1:], None], strict=True)
    ]


def paragraph(lines: tuple[Line, ...]) -> str:
    """The lines as one text: blanks between them (none between ideographs), hyphens of line ends taken out."""
    text, broken = "", False
    for line in lines:
        if text and not (_ideograph(text[-1]) and _ideograph(line.text[0])) and not broken:
            text += " "
        text += line.text
        if broken := line.broken:
            text = text[:-1]
    return text


def overlapping(characters: Characters) -> bool:
    """Whether characters lie over each other, so that their order is anyone's guess."""
    each = characters.each[characters.each["flags"] & PIECE == 0]
    em = np.maximum(characters.styles["size"][each["style"]], 0.01)
    for row in _columns(each, em) if _vertical(each, em) else _rows(each, em):
        left, right = each["box"][row, 0], each["box"][row, 2]
        low, high = each["box"][row, 1], each["box"][row, 3]
        across = np.minimum(right[1:], right[:-1]) - np.maximum(left[1:], left[:-1])
        along = np.minimum(high[1:], high[:-1]) - np.maximum(low[1:], low[:-1])
        narrow = np.minimum((right - left)[1:], (right - left)[:-1])
        flat = np.minimum((high - low)[1:], (high - low)[:-1])
        if ((across > OVER * narrow) & (along > OVER * flat)).any():
            return True
    return False


def _vertical(each: np.ndarray, em: np.ndarray) -> bool:
    steps = np.abs(np.diff(each["origin"], axis=0)) / em[1:, None]
    near = (steps < 2.5).all(1)
    return bool(near.any() and ((steps[:, 1] > 0.5) & (steps[:, 0] < 0.3))[near].mean() > COLUMN)


def _rows(each: np.ndarray, em: np.ndarray) -> list[np.ndarray]:
    """The characters of each line, from left to right. Large letters make the lines, and small ones (superscripts) join
    them."""
    keys = np.stack([np.rint(em), np.rint(each["origin"][:, 1])], 1)
    levels, level = np.unique(keys, axis=0, return_inverse=True)
    level = level.reshape(-1)
    weights = np.bincount(level)
    bands: list[list[float]] = []
    line_of = np.zeros(len(levels), np.int64)
    # The commonest size first: an initial of three lines, or a row of small print, joins lines and makes none.
    for number in sorted(range(len(levels)), key=lambda n: (-round(float(levels[n, 0]) / 3), -int(weights[n]))):
        size, baseline = levels[number]
        middle = baseline - (ABOVE - BELOW) / 2 * size
        for at, (top, bottom) in enumerate(bands):
            if top <= middle <= bottom:
                line_of[number] = at
                break
        else:
            line_of[number] = len(bands)
            bands.append([baseline - ABOVE * size, baseline + BELOW * size])
    lines = line_of[level]
    order = np.lexsort((np.arange(len(each)), each["origin"][:, 0], lines))
    parts = np.split(order, np.flatnonzero(np.diff(lines[order])) + 1)
    return sorted(parts, key=lambda part: bands[int(lines[part[0]])][1])


def _columns(each: np.ndarray, em: np.ndarray) -> list[np.ndarray]:
    """The characters of each column, from top to bottom."""
    middles = (each["box"][:, 0] + each["box"][:, 2]) / 2
    order = np.argsort(-middles, kind="stable")
    columns: list[list[int]] = []
    for index in order.tolist():
        if columns and abs(middles[columns[-1][0]] - middles[index]) <= 0.5 * em[index]:
            columns[-1].append(index)
        else:
            columns.append([index])
    return [np.array(sorted(column, key=lambda index: each["origin"][index, 1])) for column in columns]


def _line(each: np.ndarray, em: np.ndarray, down: bool) -> Line:
    main = float(np.median(em))
    baseline = float(np.median(each["origin"][em >= SMALLER * main, 1]))
    words = list(_words(each, em, main, baseline, down))
    if not down and _right_to_left("".join(word.text for word in words)):
        words = [
            dataclasses.replace(word, text=word.text[::-1] if _right_to_left(word.text) else word.text)
            for word in words[::-1]
        ]
    text = "".join(word.text if word.joined or not at else f" {word.text}" for at, word in enumerate(words))
    return Line(text, _around(each["box"]), tuple(words), down)


def _words(each: np.ndarray, em: np.ndarray, main: float, baseline: float, down: bool) -> Iterator[Word]:
    first, last = (1, 3) if down else (0, 2)
    gaps = (each["box"][1:, first] - each["box"][:-1, last]) / em[1:]
    shifts = np.zeros(len(each)) if down else (baseline - each["origin"][:, 1]) / main
    scripts = np.where((em < SMALLER * main) & (np.abs(shifts) > SHIFTED), np.sign(shifts), 0).astype(int).tolist()
    letters = [chr(code) for code in each["code"].tolist()]
    pieces = each["flags"] & PIECE > 0
    blank_before = [False]
    for at, gap in enumerate(gaps.tolist(), start=1):
        wide = WIDE_GAP_OF_IDEOGRAPHS if _ideograph(letters[at - 1]) or _ideograph(letters[at]) else WIDE_GAP
        said = bool(each["flags"][at] & AFTER_BLANK)
        blank_before.append(not pieces[at] and (gap > wide or (said and gap > GAP)))
    began = 0
    for at in range(1, len(each) + 1):
        if at < len(each) and not blank_before[at] and scripts[at] == scripts[at - 1]:
            continue
        text = unicodedata.normalize("NFC", "".join(letters[began:at])).replace("\u00ad", "-")
        box = _around(each["box"][began:at])
        yield Word(text, box, scripts[began], joined=began > 0 and not blank_before[began])
        began = at


def _around(boxes: np.ndarray) -> Box:
    left, top = boxes[:, :2].min(0).tolist()
    right, bottom = boxes[:, 2:].max(0).tolist()
    return Box(left, top, right, bottom)


def _broken(line: str, following: str) -> bool:
    return len(line) > 1 and line[-1] in HYPHENS and line[-2].isalpha() and following[:1].islower()


def _ideograph(letter: str) -> bool:
    return bool(IDEOGRAPHS.match(letter)) and not SPACED.match(letter)


def _right_to_left(text: str) -> bool:
    directions = [unicodedata.bidirectional(letter) for letter in text]
    right = sum(direction in ("R", "AL") for direction in directions)
    return right > directions.count("L") and right > 0
