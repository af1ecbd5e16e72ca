# SPDX-License-Identifier: Apache-2.0
"""A block of text lines drawn in one face, with the place of every character."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from PIL import Image, ImageDraw

from .fonts import Face

# Red, green, blue, each 0 to 255.
Colour = tuple[int, int, int]


def any_colour(rng: random.Random, low: int = 20, high: int = 230) -> Colour:
    return rng.randint(low, high), rng.randint(low, high), rng.randint(low, high)


@lru_cache(maxsize=200_000)
def _advance(face: Face, size: int, character: str) -> float:
    return face.at(size).getlength(character)


def text_width(face: Face, size: int, text: str) -> float:
    """Width of ``text`` in px, without kerning."""
    return sum(_advance(face, size, character) for character in text)


@dataclass(frozen=True)
class Line:
    """A drawn line: ``lefts[i]`` and ``lefts[i + 1]`` bound character ``i`` (px), ``baseline`` is its y (px).

    ``joined``: its last character is a hyphen that parts a word, whose rest begins the next line.
    """

    text: str
    lefts: tuple[float, ...]
    baseline: float
    x_height: float
    joined: bool = False

    @property
    def said(self) -> str:
        """What a reader says of it."""
        return self.text[:-1] if self.joined else self.text

    @property
    def top(self) -> float:
        """Above ascenders, px."""
        return self.baseline - 1.65 * self.x_height

    @property
    def bottom(self) -> float:
        """Below descenders, px."""
        return self.baseline + 0.55 * self.x_height

    def moved(self, across: float, down: float) -> Line:
        """The same line ``across`` and ``down`` px from here."""
        lefts = tuple(left + across for left in self.lefts)
        return dataclasses.replace(self, lefts=lefts, baseline=self.baseline + down)


def read(lines: list[Line]) -> str:
    """The text of lines that follow each other: a blank between two, none inside a word that a hyphen parts."""
    said = [line.said + ("" if line.joined else " ") for line in lines[:-1]]
    return "".join([*said, *(line.text for line in lines[-1:])])


def wrap(words: Iterator[str] | Iterable[str], face: Face, size: int, width: float, max_lines: int) -> list[str]:
    """Fill at most ``max_lines`` lines of ``width`` px greedily; a word wider than a line is cut to fit."""
    lines: list[str] = []
    current, used = "", 0.0
    space = _advance(face, size, " ")
    for word in words:
        needed = text_width(face, size, word)
        if current and used + space + needed <= width:
            current, used = f"{current} {word}", used + space + needed
            continue
        if current:
            lines.append(current)
            if len(lines) == max_lines:
                return lines
        while word and needed > width:
            word = word[:-1]
            needed = text_width(face, size, word)
        if not word:
            raise ValueError(f"width {width:.1f} px holds no character at {size} px; expected at least one em")
        current, used = word, needed
    if current:
        lines.append(current)
    return lines


def draw_line(
    canvas: Image.Image,
    face: Face,
    size: int,
    text: str,
    left: float,
    baseline: float,
    ink: Colour,
    width: float | None = None,
) -> Line:
    """Draw ``text`` from ``left`` on ``baseline`` (px); with ``width`` its spaces are stretched to fill it."""
    draw = ImageDraw.Draw(canvas)
    font = face.at(size)
    gap = 0.0
    if width is not None and " " in text:
        gap = max(0.0, width - text_width(face, size, text)) / text.count(" ")
    # Words are drawn one by one at whole pixels; Pillow places glyphs at whole pixels as well.
    lefts, x = [], left
    start = 0
    for index, character in enumerate(text):
        lefts.append(x)
        x += _advance(face, size, character)
        if character == " ":
            x += gap
        if character == " " or index + 1 == len(text):
            word = text[start : index + 1].rstrip(" ")
            if word:
                draw.text((round(lefts[start]), round(baseline)), word, fill=ink, font=font, anchor="ls")
            start = index + 1
    lefts.append(x)
    return Line(text, tuple(lefts), float(round(baseline)), face.x_height * size)


def draw_block(
    canvas: Image.Image,
    face: Face,
    size: int,
    lines: list[str],
    left: float,
    top: float,
    pitch: float,
    ink: Colour,
    *,
    width: float | None = None,
    align: str = "left",
) -> list[Line]:
    """Draw ``lines`` one under the other; ``top`` is the top of the first line's ascenders, ``pitch`` px apart.

    ``align`` is left, center, right or justify; all but left need ``width`` (px).
    """
    if align in ("center", "right") and width is None:
        raise ValueError(f"align {align!r}: needs the width of the column (px)")
    ascent = face.at(size).getbbox("Ahlp", anchor="ls")[1]
    drawn = []
    for index, text in enumerate(lines):
        baseline = top - ascent + index * pitch
        stretch, x = None, left
        if align == "justify" and index + 1 < len(lines):
            stretch = width
        elif align in ("center", "right") and width is not None:
            slack = width - text_width(face, size, text)
            x = left + (slack if align == "right" else slack / 2)
        drawn.append(draw_line(canvas, face, size, text, x, baseline, ink, stretch))
    return drawn
