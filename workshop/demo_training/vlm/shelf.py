# SPDX-License-Identifier: Apache-2.0
"""Crops out of printed pages (``typesetters.make``): bands of a few lines that follow each other, as the parser cuts
them."""

from __future__ import annotations

import json
import math
import random
import statistics
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from ..drawing.block import Line

IN_HAND, CHANGED = 32, 3  # decoded pages that crops come from, and how many of them change with every look
MOST_LINES = 6
X_HEIGHT, MOST_SCALE = 13.0, 2.4  # px that the parser brings small print to, and by how much at most
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Cutting:
    """A place on a page: ``box`` (left, top, right, bottom; px) and its lines, in px of the page."""

    image: Image.Image
    box: Box
    lines: tuple[Line, ...]

    def scale(self, rng: random.Random) -> float:
        """By how much the parser would enlarge it, which measures the print not quite exactly."""
        measured = statistics.median(line.x_height for line in self.lines) * math.exp(rng.uniform(-0.3, 0.3))
        return min(MOST_SCALE, max(1.0, X_HEIGHT / measured))

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, px."""
        left, top, right, bottom = self.box
        return round(right - left), round(bottom - top)

    def cut(self) -> tuple[Image.Image, list[Line]]:
        """The picture, and the lines in its px."""
        left, top = round(self.box[0]), round(self.box[1])
        width, height = self.size
        image = self.image.crop((left, top, left + width, top + height))
        return image, [line.moved(-left, -top) for line in self.lines]


class Shelf:
    """The pages under ``folder``. Raises FileNotFoundError where it holds none."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self._names = sorted(path.with_suffix("") for path in folder.glob("*.json"))
        if not self._names:
            raise FileNotFoundError(
                f"{folder} holds no pages; make them with: python -m demo_training.typesetters.make --out {folder}"
            )
        self._rng = rng
        self._pages: list[tuple[Image.Image, list[list[list[Line]]]]] = []

    def look(self, count: int) -> list[Cutting]:
        """``count`` places on the pages in hand."""
        del self._pages[:CHANGED]
        while len(self._pages) < IN_HAND:
            self._pages.append(_read(self._rng.choice(self._names)))
        return [self._cutting() for _ in range(count)]

    def _cutting(self) -> Cutting:
        rng = self._rng
        image, runs = rng.choice(self._pages)
        run = rng.choices(runs, [math.sqrt(sum(len(line.text) for part in run for line in part)) for run in runs])[0]
        lines = [line for part in run for line in part]
        part = rng.randrange(len(run))
        first = sum(map(len, run[:part]))
        last = first + len(run[part])
        if last - first > MOST_LINES or rng.random() < 0.3:
            count = rng.randint(1, min(last - first, MOST_LINES))
            first += rng.randint(0, last - first - count)
            last = first + count
        chosen = lines[first:last]
        above = chosen[0].top - lines[first - 1].bottom if first else 9.0
        below = lines[last].top - chosen[-1].bottom if last < len(lines) else 9.0
        left, right = (rng.choice((rng.uniform(-1.5, 5), rng.uniform(0, 12))) for _ in range(2))
        # Of the lines above and below, hardly more than a tail comes with it.
        up, down = (min(rng.choice((rng.uniform(-1, 5), rng.uniform(0, 9))), max(0.0, room)) for room in (above, below))
        return Cutting(
            image,
            (
                max(0.0, min(line.lefts[0] for line in chosen) - left),
                max(0.0, min(line.top for line in chosen) - up),
                min(float(image.width), max(line.lefts[-1] for line in chosen) + right),
                min(float(image.height), max(line.bottom for line in chosen) + down),
            ),
            tuple(chosen),
        )


def _read(name: Path) -> tuple[Image.Image, list[list[list[Line]]]]:
    image = Image.open(name.with_suffix(".png")).convert("RGB")
    runs = json.loads(name.with_suffix(".json").read_text(encoding="ascii"))["runs"]
    return image, [
        [
            [
                Line(line["text"], tuple(line["lefts"]), line["baseline"], line["x_height"], line["joined"])
                for line in part
            ]
            for part in run
        ]
        for run in runs
    ]
