# SPDX-License-Identifier: Apache-2.0
"""Characters put together by where they stand: words, lines, the text of a block."""

from __future__ import annotations

import dataclasses
import itertools
import re
import unicodedata

import numpy as np

from docparser.own_text.characters import AFTER_BLANK, PIECE, Characters
from docparser.places.atoms import is_ideograph
from docparser.places.box import Box, around

ABOVE, BELOW = 0.75, 0.2  # ems from the baseline to the ends of a line's band; a line has what has its middle in it
SHIFTED, SMALLER = 0.1, 0.85  # ems off the line's baseline, and of the line's letters: raised or lowered
GAP, GAP_AT_SCRIPT = -0.05, 0.15  # ems between letters, for a blank that AFTER_BLANK says; before a superscript
WIDE_GAP = 0.35  # ems, for one between letters that do not follow each other in the file
WIDE_GAP_OF_IDEOGRAPHS = 0.9
MOST_OVER = 0.05  # of all characters
OVER = 0.5  # of a letter's width: two that lie over each other as far have no order
INITIAL = 1.8  # of a line's letters: a larger one stands before several lines
COLUMN = 0.5  # of the steps from character to character: more of them downwards, and the writing is vertical
SHIFT = 1 << 24  # pixels, so that a baseline above the page is a number above 0
HYPHENS = "-\u2010\u00ad"
COMPOUND = re.compile(r"\w+(?:[-\u2010]\w+)+")
ADDRESS = re.compile(r"://|@|www\.|\w\.\w{2,}/")
CONJUNCTION = re.compile(r"(?:and|or|und|oder)\b")  # "first- and last-born": the hyphen stands for the rest of a word
RAISED = str.maketrans("0123456789+-\u2212=()", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾")  # without its level, 10³ would be another number
LOWERED = {high: low for low, high in RAISED.items()}


@dataclasses.dataclass(frozen=True)
class Word:
    """``script`` is 1 where the word, or its end that is a Word of its own then, is raised (a superscript), -1 where it
    is lowered, 0 on the line. A raised number, without letters, is in Unicode's superscripts. ``joined``: no blank
    stands before it."""

    text: str
    box: Box
    script: int = 0
    joined: bool = False


@dataclasses.dataclass(frozen=True)
class Line:
    """``text`` has one blank between words, in the order in which they are read. ``down``: the line is a column of
    vertical writing. ``broken``: it ends in a hyphen, and its last word goes on in the next line. That hyphen, which
    ``text`` has, is there for the line's end only, unless it is ``hyphened``."""

    text: str
    box: Box
    words: tuple[Word, ...]
    down: bool = False
    broken: bool = False
    hyphened: bool = False


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """The lines of one block, from top to bottom (columns of vertical writing: from right to left). ``unordered``: its
    order is anyone's guess, because characters lie over each other, or an initial stands before several lines."""

    lines: tuple[Line, ...] = ()
    unordered: bool = False

    @classmethod
    def of(cls, characters: Characters) -> Arrangement:
        if not len(characters):
            return cls()
        each = characters.each
        em = np.maximum(characters.styles["size"][each["style"]], 0.01)
        down = _vertical(each, em)
        order, line, main, baseline = _columns(each, em) if down else _rows(each, em)
        each, em = each[order], em[order]
        shift = np.zeros(len(each)) if down else (baseline[line] - each["origin"][:, 1]) / main[line]
        script = np.where((em < SMALLER * main[line]) & (np.abs(shift) > SHIFTED), np.sign(shift), 0).astype(int)
        lines = _lines(each, em, order, line, script, down=down)
        broken = [_broken(one, following.text) for one, following in itertools.pairwise(lines)]
        initial = bool((em > INITIAL * main[line]).any())
        return cls((*broken, lines[-1]), initial or _overlapping(each))


def paragraph(lines: tuple[Line, ...]) -> str:
    """The lines as one text: blanks between them (none between ideographs), hyphens of line ends taken out."""
    text, broken = "", False
    for line in lines:
        if text and not (is_ideograph(text[-1]) and is_ideograph(line.text[0])) and not broken:
            text += " "
        text += line.text
        broken = line.broken
        if broken and not line.hyphened:
            text = text[:-1]
    return text


def compounds_of(text: str) -> frozenset[str]:
    """Its words that have hyphens."""
    return frozenset(word.replace("\u2010", "-") for word in COMPOUND.findall(text.lower()))


def with_hyphens(lines: tuple[Line, ...], compounds: frozenset[str]) -> tuple[Line, ...]:
    """The lines; where two of them make one of the ``compounds``, its hyphen stays."""
    found = [
        dataclasses.replace(line, hyphened=True)
        if line.broken and compounds & compounds_of(line.text.rpartition(" ")[2] + following.text.partition(" ")[0])
        else line
        for line, following in itertools.pairwise(lines)
    ]
    return (*found, *lines[-1:])


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


Order = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _rows(each: np.ndarray, em: np.ndarray) -> Order:
    """The characters in the order of their lines, each from left to right; the line of each; and of each line the size
    of its letters and its baseline. The commonest levels make the lines, and others (superscripts) join them."""
    sizes, baselines = np.rint(em).astype(np.int64), np.rint(each["origin"][:, 1]).astype(np.int64)
    levels, level, weights = np.unique(sizes << 32 | baselines + SHIFT, return_inverse=True, return_counts=True)
    bands = np.empty((len(levels), 4))  # top and bottom of the line's band, size, baseline
    count, line_of = 0, np.zeros(len(levels), np.int64)
    for number in np.argsort(-weights * (levels >> 32), kind="stable").tolist():
        size, baseline = int(levels[number] >> 32), int(levels[number] & 0xFFFFFFFF) - SHIFT
        middle = baseline - (ABOVE - BELOW) / 2 * size
        holds = (bands[:count, 0] <= middle) & (middle <= bands[:count, 1])
        line_of[number] = holds.argmax() if holds.any() else count
        if line_of[number] == count:
            bands[count] = baseline - ABOVE * size, baseline + BELOW * size, max(size, 1), baseline
            count += 1
    bands = bands[:count]
    downwards = np.argsort(bands[:, 1], kind="stable")
    line = np.argsort(downwards)[line_of][level]
    order = np.lexsort((each["origin"][:, 0], line))
    return order, line[order], bands[downwards, 2], bands[downwards, 3]


def _columns(each: np.ndarray, em: np.ndarray) -> Order:
    """The same for columns, each from top to bottom. They have no baseline."""
    middles = (each["box"][:, 0] + each["box"][:, 2]) / 2
    from_right = np.argsort(-middles, kind="stable")
    new = -np.diff(middles[from_right], prepend=middles[from_right[0]]) > 0.5 * em[from_right]
    line = np.empty(len(each), np.int64)
    line[from_right] = np.cumsum(new)
    order = np.lexsort((each["origin"][:, 1], line))
    count = int(line.max()) + 1
    return order, line[order], np.full(count, np.median(em)), np.zeros(count)


def _lines(
    each: np.ndarray, em: np.ndarray, order: np.ndarray, line: np.ndarray, script: np.ndarray, *, down: bool
) -> list[Line]:
    """Of characters in the order of their lines. ``order``: the place of each in the file. Of two that follow each
    other there AFTER_BLANK alone says whether they are apart, for letters may be spaced."""
    boxes, codes = each["box"], each["code"]
    first, last = (1, 3) if down else (0, 2)
    gap = np.zeros(len(each))
    gap[1:] = (boxes[1:, first] - boxes[:-1, last]) / np.maximum(em[1:], em[:-1])
    another = np.diff(line, prepend=-1) != 0
    off_line = np.diff(script, prepend=script[0]) != 0
    ideograph = np.array([is_ideograph(letter) for letter in map(chr, codes.tolist())])
    wide = np.where(ideograph | np.roll(ideograph, 1), WIDE_GAP_OF_IDEOGRAPHS, WIDE_GAP)
    said = (each["flags"] & AFTER_BLANK > 0) & (gap > np.where(off_line, GAP_AT_SCRIPT, GAP))
    unsaid = (np.diff(order, prepend=-1) != 1) & (gap > wide)
    blank = another | ((said | unsaid) & (each["flags"] & PIECE == 0))
    begins = np.flatnonzero(blank | off_line)
    lows = np.minimum.reduceat(boxes[:, :2], begins).tolist()
    highs = np.maximum.reduceat(boxes[:, 2:], begins).tolist()
    letters = codes.astype("<u4").tobytes().decode("utf-32-le", "replace")
    ends = [*begins[1:].tolist(), len(each)]
    found: list[list[Word]] = []
    for begin, end, low, high, new, apart, level in zip(
        begins.tolist(),
        ends,
        lows,
        highs,
        another[begins].tolist(),
        blank[begins].tolist(),
        script[begins].tolist(),
        strict=True,
    ):
        text = unicodedata.normalize("NFC", letters[begin:end]).replace("\u00ad", "-")
        if level == 1 and any(map(str.isdecimal, text)) and not any(map(str.isalpha, text)):
            text = text.translate(RAISED)
        word = Word(text, Box(*low, *high), level, joined=not apart)
        if new:
            found.append([word])
        else:
            found[-1].append(word)
    return [_line(words, down) for words in found]


def _line(words: list[Word], down: bool) -> Line:
    text = "".join(word.text if word.joined or not at else f" {word.text}" for at, word in enumerate(words))
    return Line(text, around(word.box for word in words), tuple(words), down)


def _broken(line: Line, following: str) -> Line:
    word = line.text.rpartition(" ")[2]
    if len(word) < 2 or word[-1] not in HYPHENS:
        return line
    if ADDRESS.search(word):
        return dataclasses.replace(line, broken=True, hyphened=True)
    goes_on = following[:1].islower() and not CONJUNCTION.match(following)
    return dataclasses.replace(line, broken=word[-2].isalpha() and goes_on)
