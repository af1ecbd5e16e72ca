# SPDX-License-Identifier: Apache-2.0
"""The shapes of glyphs: of characters in plain fonts (a table), and of what is seen on a page.

A shape is how much ink lies in each of ZONES x ZONES parts of the glyph's box, and where the box stands on the line.
That tells most characters from each other in any text font, at any size from some ten pixels an em.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import numpy as np

ZONES = 6
LEVELS = 15  # of a zone in the table: four bits
UNITS = 64  # of an em, in which the table has places
TABLE = Path(__file__).with_name("glyph_shapes.npz")
PLACE_COUNTS = 0.3  # an em of height or width against the whole difference of two pictures
SAME_HEIGHT, HEIGHT_COUNTS = 0.1, 2.0  # ems by which fonts differ in tops and bottoms; beyond, each em counts so much
AT_ONCE = 256  # shapes that are compared with all of a script: some 30 MB for ideographs
IDEOGRAPHS = 0x2E80  # from here on, a glyph's height counts and not where it stands: columns have no baseline
ALIKE = ("Il1|!i", "O0", "cC", "kK", "pP", "sS", "uU", "vV", "wW", "xX", "zZ", "'`,", '"', "-_")
FACES = {ord(letter): ord(letters[0]) for letters in ALIKE for letter in letters}
SHAPE = np.dtype([("code", "<u2"), ("zones", "u1", ZONES * ZONES), ("place", "i1", 3)])


@dataclasses.dataclass(frozen=True)
class Shapes:
    """``zones``: ``[shapes, ZONES * ZONES]``, by how much each part differs from the whole; ``place``: ``[shapes, 3]``:
    how far the box's top and its bottom stand above the baseline, and its width, in ems."""

    zones: np.ndarray
    place: np.ndarray

    @classmethod
    def seen(cls, codes: np.ndarray, zones: np.ndarray, place: np.ndarray) -> Shapes:
        """``zones`` is ink in any unit; ``place`` as above. ``codes``: the characters that they are said to be."""
        zones = zones.astype(np.float32)
        parts = zones / np.maximum(zones.mean(1, keepdims=True), 1e-6) - 1
        parts /= np.linalg.norm(parts, axis=1, keepdims=True) + 1  # what is all black has no parts to compare
        upright = (codes >= IDEOGRAPHS)[:, None]
        heights = np.stack([place[:, 0] - place[:, 1], np.zeros(len(place)), place[:, 2]], 1)
        return cls(parts, np.where(upright, heights, place).astype(np.float32))

    @classmethod
    def of(cls, rows: np.ndarray) -> Shapes:
        """Of rows of SHAPE."""
        return cls.seen(rows["code"], rows["zones"], rows["place"].astype(np.float32) / UNITS)

    def __getitem__(self, which: np.ndarray | slice) -> Shapes:
        return Shapes(self.zones[which], self.place[which])

    def __len__(self) -> int:
        return len(self.zones)


def distances(some: Shapes, others: Shapes) -> np.ndarray:
    """``[some, others]``: 0 for the same shape. Of the same letter in two fonts it is some 0.1, of two letters that a
    reader tells apart some 0.5."""
    lengths = (some.zones**2).sum(1)[:, None] + (others.zones**2).sum(1)[None]
    found = lengths / 2 - some.zones @ others.zones.T
    for side in range(3):
        found += _of_place(np.abs(some.place[:, side, None] - others.place[None, :, side]), side)
    return found


def pairwise(some: Shapes, others: Shapes) -> np.ndarray:
    """``distances`` of the first to the first, the second to the second, and so on."""
    apart = np.abs(some.place - others.place)
    places = sum(_of_place(apart[:, side], side) for side in range(3))
    return ((some.zones - others.zones) ** 2).sum(1) / 2 + places


def _of_place(apart: np.ndarray, side: int) -> np.ndarray:
    """What a difference of places, in ems, adds to a distance: small letters and capitals differ in little else."""
    return PLACE_COUNTS * apart + (HEIGHT_COUNTS * np.maximum(apart - SAME_HEIGHT, 0) if side < 2 else 0)


class Table:
    """The characters of plain fonts: ``codes``, ``[shapes]`` in ascending order, several shapes for many."""

    def __init__(self, codes: np.ndarray, shapes: Shapes) -> None:
        self.codes, self._shapes = codes, shapes
        self._scripts = _scripts(codes)

    def own(self, codes: np.ndarray, seen: Shapes) -> np.ndarray:
        """``[codes]``: how far what was seen is from the nearest shape of its character; nan where none is known."""
        first, end = np.searchsorted(self.codes, codes), np.searchsorted(self.codes, codes, "right")
        found = np.full(len(codes), np.nan, np.float32)
        for step in range(int((end - first).max(initial=0))):
            at = np.flatnonzero(first + step < end)
            found[at] = np.fmin(found[at], pairwise(seen[at], self._shapes[first[at] + step]))
        return found

    def others(self, codes: np.ndarray, seen: Shapes) -> np.ndarray:
        """``[codes]``: how far it is from the nearest shape of another character of the same script, those left out
        that look like it in some fonts."""
        found = np.full(len(codes), np.inf, np.float32)
        scripts = _scripts(codes)
        for script in np.unique(scripts):
            all_mine, theirs = np.flatnonzero(scripts == script), np.flatnonzero(self._scripts == script)
            faces, shapes = _faces(self.codes[theirs]), self._shapes[theirs]
            for begin in range(0, len(all_mine), AT_ONCE):
                mine = all_mine[begin : begin + AT_ONCE]
                far = distances(seen[mine], shapes)
                far[_faces(codes[mine])[:, None] == faces[None]] = np.inf
                found[mine] = far.min(1, initial=np.inf)
        return found


def _faces(codes: np.ndarray) -> np.ndarray:
    """The same number for characters that look alike."""
    found, back = np.unique(codes, return_inverse=True)
    return np.array([FACES.get(code, code) for code in found.tolist()])[back]


def _scripts(codes: np.ndarray) -> np.ndarray:
    """A number for what may stand for each other: ASCII, further alphabets and signs, kana, ideographs, Hangul."""
    return np.searchsorted([0x80, 0x400, 0x2000, 0x3000, 0x3400, 0xAC00], codes, "right")


@functools.cache
def table() -> Table:
    with np.load(TABLE) as found:
        packed, codes, place = found["zones"], found["code"].astype(np.uint32), found["place"]
    zones = np.stack([packed >> 4, packed & 15], 2).reshape(len(packed), -1)
    return Table(codes, Shapes.seen(codes, zones, place.astype(np.float32) / UNITS))
