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
GAP, GAP_AT_SCRIPT = -0.05, 0.15  # ems between letters, for a blank that the file has; before a superscript
WIDE_GAP = 0.35  # ems, for one that it does not have
WIDE_GAP_OF_IDEOGRAPHS = 0.9
MOST_OVER = 0.05  # of all characters
OVER = 0.5  # of a letter's width: two that lie over each other as far have no order
COLUMN = 0.5  # of the steps from character to character: more of them downwards, and the writing is vertical
SHIFT = 1 << 24  # pixels, so that a baseline above the page is a number above 0
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


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """The lines of one block, from top to bottom (columns of vertical writing: from right to left). ``overlapping``:
    characters lie over each other, so that their order is anyone's guess."""

    lines: tuple[Line, ...] = ()
    overlapping: bool = False

    @classmethod
    def of(cls, characters: Characters) -> Arrangement:
        if not len(characters):
            return cls()
        each = characters.each
        em = np.maximum(characters.styles["size"][each["style"]], 0.01)
        down = _vertical(each, em)
        rows = _columns(each, em) if down else _rows(each, em)
        lines = [_line(each[row], em[row], down) for row in rows]
        return cls(
            tuple(
                dataclasses.replace(line, broken=_broken(line.text, following.text)) if following else line
                for line, following in zip(lines, [*lines[1:], None], strict=True)
            ),
            _overlapping(each[np.concatenate(rows)]),
        )


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


def middles(characters: Characters) -> np.ndarray:
    """``[characters, 2]``: where each stands; of a comma the middle of the line, and not of its own ink."""
    boxes = characters.each["box"]
    found = (boxes[:, :2] + boxes[:, 2:]) / 2
    em = characters.styles["size"][characters.each["style"]]
    on_line = characters.each["origin"][:, 1] - (ABOVE - BELOW) / 2 * em
    found[:, 1] = np.where(np.abs(on_line - found[:, 1]) < ABOVE * em, on_line, found[:, 1])
    return found


def _overlapping(each: np.ndarray) -> bool:
    """Of characters in the order of their lines. A few may: the logo of LaTeX, an accent."""
    boxes = each["box"][each["flags"] & PIECE == 0]
    lows = np.maximum(boxes[1:, :2], boxes[:-1, :2])
    highs = np.minimum(boxes[1:, 2:], boxes[:-1, 2:])
    sizes = boxes[:, 2:] - boxes[:, :2]
    pairs = (highs - lows > OVER * np.minimum(sizes[1:], sizes[:-1])).all(1)
    return bool(pairs.sum() > 1 + MOST_OVER * len(boxes))


def _vertical(each: np.ndarray, em: np.ndarray) -> bool:
    steps = np.abs(np.diff(each["origin"], axis=0)) / em[1:, None]
    near = (steps < 2.5).all(1)
    return bool(near.any() and ((steps[:, 1] > 0.5) & (steps[:, 0] < 0.3))[near].mean() > COLUMN)


def _rows(each: np.ndarray, em: np.ndarray) -> list[np.ndarray]:
    """The characters of each line, from left to right. Large letters make the lines, and small ones (superscripts) join
    them."""
    sizes, baselines = np.rint(em).astype(np.int64), np.rint(each["origin"][:, 1]).astype(np.int64)
    levels, level, weights = np.unique(sizes << 32 | baselines + SHIFT, return_inverse=True, return_counts=True)
    bands: list[list[float]] = []
    line_of = np.zeros(len(levels), np.int64)
    for number in sorted(range(len(levels)), key=lambda n: (-round(int(levels[n] >> 32) / 3), -int(weights[n]))):
        size, baseline = int(levels[number] >> 32), int(levels[number] & 0xFFFFFFFF) - SHIFT
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
    words = list(_words(each, em, main, baseline, down=down))
    if not down and _right_to_left("".join(word.text for word in words)):
        words = [
            dataclasses.replace(word, text=word.text[::-1] if _right_to_left(word.text) else word.text)
            for word in words[::-1]
        ]
    text = "".join(word.text if word.joined or not at else f" {word.text}" for at, word in enumerate(words))
    return Line(text, _around(each["box"].tolist()), tuple(words), down)


def _words(each: np.ndarray, em: np.ndarray, main: float, baseline: float, *, down: bool) -> Iterator[Word]:
    first, last = (1, 3) if down else (0, 2)
    boxes = each["box"]
    gaps = (boxes[1:, first] - boxes[:-1, last]) / np.maximum(em[1:], em[:-1])
    shifts = np.zeros(len(each)) if down else (baseline - each["origin"][:, 1]) / main
    scripts = np.where((em < SMALLER * main) & (np.abs(shifts) > SHIFTED), np.sign(shifts), 0).astype(int).tolist()
    letters = [chr(code) for code in each["code"].tolist()]
    least = np.where(np.diff(scripts) != 0, GAP_AT_SCRIPT, GAP)
    said, piece = each["flags"][1:] & AFTER_BLANK > 0, each["flags"][1:] & PIECE > 0
    ideographs = np.array([bool(_ideograph(letter)) for letter in letters])
    wide = np.where(ideographs[1:] | ideographs[:-1], WIDE_GAP_OF_IDEOGRAPHS, WIDE_GAP)
    blank_before = [False, *(~piece & ((gaps > wide) | (said & (gaps > least)))).tolist()]
    edges, began = boxes.tolist(), 0
    for at in range(1, len(each) + 1):
        if at < len(each) and not blank_before[at] and scripts[at] == scripts[at - 1]:
            continue
        text = unicodedata.normalize("NFC", "".join(letters[began:at])).replace("\u00ad", "-")
        yield Word(text, _around(edges[began:at]), scripts[began], joined=began > 0 and not blank_before[began])
        began = at


def _around(boxes: list[list[float]]) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return Box(min(lefts), min(tops), max(rights), max(bottoms))


def _broken(line: str, following: str) -> bool:
    return len(line) > 1 and line[-1] in HYPHENS and line[-2].isalpha() and following[:1].islower()


def _ideograph(letter: str) -> bool:
    return bool(IDEOGRAPHS.match(letter)) and not SPACED.match(letter)


def _right_to_left(text: str) -> bool:
    directions = [unicodedata.bidirectional(letter) for letter in text]
    right = sum(direction in ("R", "AL") for direction in directions)
    return right > directions.count("L") and right > 0
