# SPDX-License-Identifier: Apache-2.0
"""The look of one page: paper, margins, faces, sizes, spacing."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ..drawing.block import Colour
from ..drawing.fonts import CORE, WIDER, Face

#: x-height in px of body text; ``wide`` goes beyond what the demo VLM is measured on.
CORE_X_HEIGHT = (10.0, 26.0)


@dataclass(frozen=True)
class Style:
    """All lengths in px. ``pitch`` is in em; ``gap`` is what the space between blocks exceeds
    the space between lines by, in em of the body."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    body: Face
    heading: Face
    size: int
    pitch: float
    gap: float
    indent: float
    justify: bool
    columns: int
    gutter: int
    paper: Colour
    ink: Colour
    accent: Colour
    longest: int = 8  # lines of a paragraph
    core: bool = False

    def fit(self, face: Face, size: float) -> int:
        """``size`` px, on core pages moved to where the x-height of ``face`` is within CORE_X_HEIGHT."""
        if not self.core:
            return round(size)
        low, high = (x_height / face.x_height for x_height in CORE_X_HEIGHT)
        return round(min(max(size, low + 0.5), high - 0.5))

    @property
    def text_width(self) -> int:
        return self.width - self.left - self.right

    def column_boxes(self) -> list[tuple[int, int]]:
        """(left, right) of each column."""
        width = (self.text_width - self.gutter * (self.columns - 1)) // self.columns
        return [
            (self.left + index * (width + self.gutter), self.left + index * (width + self.gutter) + width)
            for index in range(self.columns)
        ]


def _bold(face: Face, rng: random.Random) -> Face:
    family = [other for other in CORE if other.name == face.name and other.bold]
    return family[0] if family else rng.choice([other for other in CORE if other.bold])


def _page_size(rng: random.Random) -> tuple[int, int]:
    roll = rng.random()
    if roll < 0.55:
        return 1240, 1754
    if roll < 0.62:
        return 1190, 1684
    width = rng.randint(900, 1700)
    ratio = rng.choice([1.414, 1.294, 1.414, rng.uniform(1.1, 1.5)])
    if roll < 0.88:
        return width, round(width * ratio)
    long = rng.randint(1200, 1800)
    return long, round(long / ratio)


def draw_style(rng: random.Random, columns: int | None = None, core: bool = False) -> Style:
    """A random style; ``core`` keeps to the faces and sizes on which the demo VLM is measured."""
    width, height = _page_size(rng)
    face = rng.choice(CORE) if core or rng.random() < 0.88 else rng.choice(WIDER)
    if face.bold and rng.random() < 0.6:
        face = rng.choice([other for other in CORE if not other.bold])
    low, high = CORE_X_HEIGHT
    if core:
        # Leaves room for titles that are larger than the text and still within the core range.
        low, high = low + 0.3, 0.7 * high
    x_height = low * (high / low) ** rng.random()
    size = max(16, round(x_height / face.x_height))
    margin = width * rng.uniform(0.05, 0.13)
    gutter = round(max(width * rng.uniform(0.028, 0.06), 1.2 * size))
    text_width = width - 2 * margin
    fits_two = (text_width - gutter) / 2 > 10.5 * size
    if columns is None:
        columns = 2 if fits_two and rng.random() < 0.7 else 1
    columns = columns if fits_two else 1
    indented = rng.random() < 0.12
    pitch = rng.uniform(1.14, 1.6)
    paper = rng.choice([(255, 255, 255)] * 4 + [(rng.randint(236, 255), rng.randint(236, 255), rng.randint(236, 255))])
    shade = rng.choice([0, 0, rng.randint(0, 70)])
    accent = rng.choice([(20, 60, 120), (130, 30, 30), (30, 90, 60), (80, 80, 80), (0, 0, 0)])
    heading = _bold(face, rng) if rng.random() < 0.85 else rng.choice(CORE)
    return Style(
        width=width,
        height=height,
        left=round(margin * rng.uniform(0.9, 1.1)),
        right=round(margin * rng.uniform(0.9, 1.1)),
        top=round(height * rng.uniform(0.045, 0.11)),
        bottom=round(height * rng.uniform(0.07, 0.11)),
        body=face,
        heading=heading,
        size=size,
        pitch=pitch,
        gap=rng.uniform(0.0, 0.3) if indented else rng.uniform(0.33, 1.1),
        indent=rng.uniform(1.2, 2.5) if indented else 0.0,
        justify=rng.random() < 0.4,
        columns=columns,
        gutter=gutter,
        paper=paper,
        ink=(shade, shade, shade),
        accent=accent,
        longest=24 if not core and rng.random() < 0.3 else 8,
        core=core,
    )
