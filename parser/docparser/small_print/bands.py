# SPDX-License-Identifier: Apache-2.0
"""Blocks of print cut into bands of a few lines, enlarged where the print is small: for a VLM that loses its place in
long paragraphs, as the demo weights do. The bands' texts are put together again with the ends of lines that were meant,
as in lists and addresses, for the VLM reads without them (docs/decisions/0304).

A block of a page that was scanned askew is straightened first. Its lines are found by their ink
(``places.grids.bodies``).

The print says which ends were meant: the first word of the next line would have stood in the room that the line leaves
(``own_text.page_text`` has the same rule for a PDF's own text). Where they are in the text follows from how wide each
line is and how wide its words would be.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import cv2
import numpy as np
from PIL import Image

from docparser.page.question import Question
from docparser.places.grids.bodies import INKED, NOISE, Body, between, bodies_in, runs

LINES = 4  # of a band
ALONE = 5  # lines of a block that stays whole
X_HEIGHT = 13.0  # px that small print is enlarged to
MOST_SCALE = 2.4
X_HEIGHT_OF_LINE = 1 / 2.2  # of the ink from ascenders to descenders
MOST_SKEW = 2.0  # degrees
STEP = 0.1  # degrees
SHARPER = 1.05  # times the profile of the block as it is: less is no skew
POINTS = 20_000  # with ink, that a skew is found by
QUALITY = 95  # of the JPEG of what is cut out
BLANK = 0.2  # of a line's height: white between two words is wider
ROOM = 0.25  # of a line's height, that a line leaves besides the room for a blank and the next word
NARROWEST = 16.0  # heights of a line: about 25 letters
LEAST_EM, MOST_EM = 0.8, 1.9  # heights of a line
MISFIT = 0.2  # of a line's width: words that miss it by more are not the line's
NARROW, USUAL, WIDE, CAPITAL = 0.28, 0.52, 0.82, 0.68  # ems


@dataclasses.dataclass(frozen=True)
class Bands:
    """``rows`` (first, after the last) of each band of a block, and by how much its print is to be enlarged."""

    rows: list[Body]
    scale: float


@dataclasses.dataclass(frozen=True)
class Band:
    """What is asked for at once: a block or some lines of one. ``grey``: its picture, uint8 [height, width].
    ``bodies``: its lines; ``x_height``: of their print, px; 0 where there is none."""

    question: Question
    grey: np.ndarray
    bodies: list[Body]
    x_height: float

    def by_line(self) -> list[Question]:
        """Questions for each of its lines."""
        image, ink = picture_of(self.question), _ink(self.grey)
        cuts = [0, *(between(ink, above, below) for above, below in zip(self.bodies, self.bodies[1:])), image.height]
        scale = _scale(self.x_height)
        return [
            _enlarged(self.question, image.crop((0, top, image.width, end)), scale) for top, end in zip(cuts, cuts[1:])
        ]


def find(image: np.ndarray) -> Bands:
    """``image``: grey, uint8 [height, width]."""
    height = image.shape[0]
    ink, bodies = _ink(image), _bodies(image)
    if not bodies:
        return Bands([(0, height)], 1.0)
    scale = _scale(_x_height(bodies))
    if len(bodies) <= ALONE:
        return Bands([(0, height)], scale)
    count = math.ceil(len(bodies) / LINES)
    starts = [round(number * len(bodies) / count) for number in range(1, count)]
    cuts = [0, *(between(ink, bodies[start - 1], bodies[start]) for start in starts), height]
    return Bands(list(zip(cuts, cuts[1:])), scale)


def _x_height(bodies: list[Body]) -> float:
    return X_HEIGHT_OF_LINE * float(np.median([last - first for first, last in bodies]))


def _scale(x_height: float) -> float:
    return min(MOST_SCALE, max(1.0, X_HEIGHT / x_height))


def skew(image: np.ndarray) -> float:
    """Degrees, counter-clockwise, that lines of print rise by; 0.0 where no angle makes them clearly sharper.

    ``image``: grey, uint8 [height, width].
    """
    return rise(inked(image), STEP)


def rise(marks: np.ndarray, step: float) -> float:
    """Degrees, counter-clockwise, to about ``step``, that lines of ``marks``, bool [height, width], rise by.

    Lines are sharpest along the angle at which the sums of marks over them differ most (the sum of their squares is
    largest). 0.0 where no angle makes them clearly sharper.
    """
    rows, columns = np.nonzero(marks)
    if not len(rows):
        return 0.0
    every = max(1, len(rows) // POINTS)
    rows, columns = rows[::every], columns[::every]

    def best(degrees: np.ndarray) -> tuple[float, float]:
        return max((_sharpness(rows, columns, angle), angle) for angle in degrees.tolist())

    sharpness, found = best(np.arange(-MOST_SKEW, MOST_SKEW + STEP / 2, STEP))
    if step < STEP:
        sharpness, found = best(np.arange(found - STEP, found + STEP + step / 2, step))
    return found if sharpness > SHARPER * _sharpness(rows, columns, 0.0) else 0.0


def _sharpness(rows: np.ndarray, columns: np.ndarray, degrees: float) -> float:
    level = np.rint(rows + math.tan(math.radians(degrees)) * columns).astype(np.int64)
    return float(np.square(np.bincount(level - level.min())).sum())


def inked(image: np.ndarray) -> np.ndarray:
    """Pixels with ink, on paper of whatever grey: bool [height, width]."""
    return np.abs(image.astype(np.int16) - int(np.median(image))) > INKED


def _ink(image: np.ndarray) -> np.ndarray:
    """Pixels with ink of each row: int64 [height]."""
    return np.count_nonzero(inked(image), axis=1)


def _bodies(image: np.ndarray) -> list[Body]:
    return bodies_in(_ink(image), max(1, round(NOISE * image.shape[1])))


def bands_of(question: Question) -> list[Band]:
    """A block of text in bands; one with the question as it is, where nothing is to be cut."""
    picture = picture_of(question)
    image = straightened(picture)
    found = find(np.asarray(image.convert("L")))
    if image is picture and len(found.rows) == 1 and found.scale == 1.0:
        return [_band(question, image)]
    cuts = [image.crop((0, top, image.width, end)) for top, end in found.rows]
    return [_band(_enlarged(question, cut, found.scale), cut) for cut in cuts]


def _band(question: Question, cut: Image.Image) -> Band:
    grey = np.asarray(cut.convert("L"))
    bodies = _bodies(grey)
    return Band(question, grey, bodies, _x_height(bodies) if bodies else 0.0)


def _enlarged(question: Question, cut: Image.Image, scale: float) -> Question:
    return with_picture(question, cut, max(question.least_pixels, round(cut.width * cut.height * scale**2)))


def picture_of(question: Question) -> Image.Image:
    """RGB."""
    return Image.fromarray(cv2.cvtColor(question.picture, cv2.COLOR_BGR2RGB))


def straightened(image: Image.Image) -> Image.Image:
    """A block of a page that was scanned askew, upright."""
    return turned(image, skew(np.asarray(image.convert("L"))))


def turned(image: Image.Image, degrees: float) -> Image.Image:
    """``image`` turned clockwise, on the same paper."""
    if not degrees:
        return image
    paper = tuple(int(level) for level in np.median(np.asarray(image), axis=(0, 1)))
    return image.rotate(-degrees, Image.Resampling.BICUBIC, fillcolor=paper)


def with_picture(question: Question, picture: Image.Image, least: int) -> Question:
    """The question about another picture, RGB. The VLM's own preprocessing enlarges: ``least`` says how many pixels it
    needs."""
    pixels = cv2.cvtColor(np.asarray(picture), cv2.COLOR_RGB2BGR)
    return dataclasses.replace(question, picture=pixels, least_pixels=min(least, question.most_pixels), quality=QUALITY)


def joined(texts: list[str]) -> str:
    """The texts of a block's bands as one: a blank between two, none inside a word that a hyphen parts."""
    whole = ""
    for text in filter(None, (text.strip() for text in texts)):
        if whole[-1:] == "-" and whole[-2:-1].isalpha() and text[:1].islower():
            whole = whole[:-1] + text
        else:
            whole += (" " if whole else "") + text
    return whole


@dataclasses.dataclass(frozen=True)
class _Line:
    """Px in the block's picture: where its ink begins and ends, how wide its first word is, how wide the white behind
    that (0: none), how high it is."""

    left: int
    right: int
    first_word: int
    blank: int
    height: int

    @property
    def width(self) -> int:
        return self.right - self.left


def whole(bands: Sequence[Band], texts: Sequence[str]) -> str:
    """The texts of a block's bands as one, with an end of line where one was meant."""
    printed = [[line for body in band.bodies if (line := _line(band.grey, body))] for band in bands]
    meant = _meant([line for lines in printed for line in lines])
    parts: list[list[str]] = [[]]
    for text, lines in zip(texts, printed, strict=True):
        own, meant = meant[: len(lines)], meant[len(lines) :]
        pieces = _broken(text, lines, own[:-1])
        parts[-1].append(pieces[0])
        parts += [[piece] for piece in pieces[1:]]
        if own and own[-1] and text.strip():
            parts.append([])
    return "\n".join(filter(None, map(joined, parts)))


def _line(grey: np.ndarray, body: tuple[int, int]) -> _Line | None:
    words = runs(np.asarray(inked(grey)[body[0] : body[1]].any(axis=0)))
    if not words:
        return None
    height, end, blank = body[1] - body[0], words[0][1], 0
    for first, last in words[1:]:
        if first - end >= BLANK * height:
            blank = first - end
            break
        end = last
    return _Line(words[0][0], words[-1][1], end - words[0][0], blank, height)


def _meant(lines: Sequence[_Line]) -> list[bool]:
    """Of each line of a block, whether its end was meant; of the last one, no. Where half were, all were: the longest
    line of a list leaves no room. No paragraph is set as narrow as an address."""
    if len(lines) < 2:
        return [False] * len(lines)
    left, right = min(line.left for line in lines), max(line.right for line in lines)
    flush = len(lines) > 2 and all(right - line.right < ROOM * line.height for line in lines)  # to the right
    blank = float(np.median([line.blank for line in lines if line.blank] or [0]))
    found = [
        (line.left - left if flush else right - line.right) > below.first_word + blank + ROOM * below.height
        for line, below in zip(lines, lines[1:])
    ]
    narrow = right - left < NARROWEST * float(np.median([line.height for line in lines]))
    return [*([True] * len(found) if narrow or 2 * sum(found) >= len(found) else found), False]


def _broken(text: str, lines: Sequence[_Line], meant: Sequence[bool]) -> list[str]:
    """``text`` of ``lines`` in pieces, parted where the end of a line but the last was ``meant``."""
    words = text.split()
    if not any(meant) or len(words) < len(lines):
        return [text]
    ends = _ends(words, lines)
    if ends is None:
        return [text]
    cuts = [0, *(end for end, wanted in zip(ends, meant) if wanted), len(words)]
    return [" ".join(words[first:last]) for first, last in zip(cuts, cuts[1:])]


def _ends(words: Sequence[str], lines: Sequence[_Line]) -> list[int] | None:
    """How many words have been said at the end of each line, so that widths fit best. None: they do not fit."""
    widths = np.array([sum(map(_width, word)) for word in words])
    said = np.concatenate(([0.0], np.cumsum(widths + NARROW)))
    scale = sum(line.width for line in lines) / (said[-1] - NARROW * len(lines))  # px of an em
    if not LEAST_EM <= scale / float(np.median([line.height for line in lines])) <= MOST_EM:
        return None
    count = len(words)
    best = np.full(count + 1, np.inf)
    best[0] = 0.0
    came: list[np.ndarray] = []
    for line in lines:
        spans = (said[None, :] - said[:, None] - NARROW) * scale  # from word to word
        costs = best[:, None] + np.square(spans - line.width)
        costs[np.tril_indices(count + 1)] = np.inf  # a line has a word
        came.append(costs.argmin(axis=0))
        best = costs.min(axis=0)
    if not np.isfinite(best[-1]):
        return None
    ends = [count]
    for before in reversed(came[1:]):
        ends.append(int(before[ends[-1]]))
    ends.reverse()
    for line, first, last in zip(lines, [0, *ends], ends):
        span = (said[last] - said[first] - NARROW) * scale
        if abs(span - line.width) > MISFIT * line.width + line.height:
            return None
    return ends


def _width(letter: str) -> float:
    if letter in "iljtfI.,:;!|'()[]-":
        return NARROW
    return WIDE if letter in "mwMW" else CAPITAL if letter.isupper() else USUAL
