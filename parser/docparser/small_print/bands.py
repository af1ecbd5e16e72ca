# SPDX-License-Identifier: Apache-2.0
"""Blocks of print cut into bands of a few lines, enlarged where the print is small: for a VLM that loses its place in
long paragraphs, as the demo weights do (docs/decisions/0304).

A block of a page that was scanned askew is straightened first. Its lines are found by their ink
(``places.grids.bodies``).
"""

from __future__ import annotations

import dataclasses
import math

import cv2
import numpy as np
from PIL import Image

from docparser.page.question import Question
from docparser.places.grids.bodies import INKED, NOISE, Body, between, bodies_in

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
