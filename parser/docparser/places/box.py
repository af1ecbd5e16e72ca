# SPDX-License-Identifier: Apache-2.0
"""Boxes on a page, boxes on a picture that was cut from it, and the grid of a table's picture."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

Sides = Sequence[float]  # left, top, right, bottom, as others have them than this package


class Box(NamedTuple):
    """Left, top, right and bottom in pixels of the page as it was parsed."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top


def around(boxes: Iterable[Iterable[float]]) -> Box:
    """The smallest box that holds all; there is one."""
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return Box(min(lefts), min(tops), max(rights), max(bottoms))


def middle(box: Sides) -> tuple[float, float]:
    """Across and down."""
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def holds(box: Sides, point: tuple[float, float]) -> bool:
    """Whether the point lies in the box, or on its edge."""
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]


class PixelBox(NamedTuple):
    """Pixels of a picture; right and bottom are exclusive."""

    left: int
    top: int
    right: int
    bottom: int


@dataclasses.dataclass(frozen=True)
class GridCell:
    """A cell at ``row`` and ``column``, from 0, over ``rows`` and ``columns``; ``area`` is inside its rules. ``lines``
    are the boxes of the ink of its lines of print, from top to bottom."""

    row: int
    column: int
    rows: int
    columns: int
    area: PixelBox
    lines: tuple[PixelBox, ...]


@dataclasses.dataclass(frozen=True)
class Grid:
    """``line``: px of a line's ink, from ascenders to descenders. ``cells`` in the order of their rows."""

    rows: int
    columns: int
    line: float
    cells: tuple[GridCell, ...]
