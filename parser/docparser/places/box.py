# SPDX-License-Identifier: Apache-2.0
"""Boxes on a page."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True)
class Box:
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


def around(boxes: Iterable[Box]) -> Box:
    """The smallest box that holds all; there is one."""
    found = list(boxes)
    return Box(
        min(box.left for box in found),
        min(box.top for box in found),
        max(box.right for box in found),
        max(box.bottom for box in found),
    )
