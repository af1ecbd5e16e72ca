# SPDX-License-Identifier: Apache-2.0
"""Texts whose parts know where on a page they stand, however the texts are cut and joined."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from docparser.places.box import Box


@dataclasses.dataclass(frozen=True)
class Spot:
    """``[start:end]`` of a text stands in ``box`` on page ``page`` (from 1)."""

    page: int
    box: Box
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class Spotted:
    """``spots``: None where nobody asked for places."""

    text: str
    spots: tuple[Spot, ...] | None = None

    def cut(self, start: int, end: int) -> Spotted:
        """``text[start:end]``; a spot that is not whole in it is none."""
        if self.spots is None:
            return Spotted(self.text[start:end])
        inside = (spot for spot in self.spots if start <= spot.start and spot.end <= end)
        return Spotted(self.text[start:end], tuple(_moved(spot, -start) for spot in inside))


def joined(separator: str, parts: Sequence[Spotted]) -> Spotted:
    spots: list[Spot] = []
    at = 0
    for part in parts:
        spots += (_moved(spot, at) for spot in part.spots or ())
        at += len(part.text) + len(separator)
    asked = any(part.spots is not None for part in parts)
    return Spotted(separator.join(part.text for part in parts), tuple(spots) if asked else None)


def _moved(spot: Spot, by: int) -> Spot:
    return dataclasses.replace(spot, start=spot.start + by, end=spot.end + by)
