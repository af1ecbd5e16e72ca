# SPDX-License-Identifier: Apache-2.0
"""The shapes of glyphs: of characters in plain fonts (a table), and of what is seen on a page: where it has ink, and
how much in the boxes of its characters.

A shape is how much ink lies in each of ZONES x ZONES parts of the glyph's box, and where the box stands on the line.
That tells most characters from each other in any text font, at any size from some ten pixels an em.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import cv2
import numpy as np

from docparser.own_text.characters import Characters

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
SAME_GROUND = 8  # levels of grey
AROUND, FURTHER = 1, 5  # pixels about a run of characters that have its ground; that are looked at for it


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


class Ink:
    """``levels``: uint8 ``[height, width]``, how far each pixel is from the ground about it, in levels of grey."""

    def __init__(self, pixels: np.ndarray, characters: Characters) -> None:
        grey = cv2.cvtColor(pixels, cv2.COLOR_BGR2GRAY)
        self._grey, self._ground = grey, _usual(grey[::3, ::3])
        ground = self._ground
        self.levels = cv2.absdiff(grey, np.full_like(grey, ground)) if 0 < ground < 255 else _from_end(grey, ground)
        for left, top, right, bottom in _runs(characters, grey.shape):
            part = grey[top:bottom, left:right]
            here = _usual(grey[max(0, top - FURTHER) : bottom + FURTHER, max(0, left - FURTHER) : right + FURTHER])
            if abs(here - ground) > SAME_GROUND:
                self.levels[top:bottom, left:right] = np.abs(part.astype(np.int16) - here)
        self._sums = cv2.integral(self.levels)

    def sums(self, xs: np.ndarray, ys: np.ndarray) -> np.ndarray:
        """``[n, x, y]``: all ink left of ``xs`` (``[n, x]``) and above ``ys`` (``[n, y]``), in pixels from the upper
        left corner; a pixel that an edge cuts counts in part."""
        height, width = self.levels.shape
        xs, ys = np.clip(xs, 0, width).astype(np.float32), np.clip(ys, 0, height).astype(np.float32)
        left, above = np.minimum(xs.astype(np.int32), width - 1), np.minimum(ys.astype(np.int32), height - 1)
        across, down = (xs - left)[:, :, None], (ys - above)[:, None, :]
        at = above[:, None, :] * (width + 1) + left[:, :, None]
        flat = self._sums.reshape(-1)
        upper = flat[at] * (1 - across) + flat[at + 1] * across
        lower = flat[at + width + 1] * (1 - across) + flat[at + width + 2] * across
        return upper * (1 - down) + lower * down

    def part(self, box: tuple[float, float, float, float]) -> tuple[np.ndarray, tuple[int, int]]:
        """``levels`` in ``box``, against its own ground where this is not the page's, and its upper left corner."""
        height, width = self.levels.shape
        left, top = max(0, int(box[0])), max(0, int(box[1]))
        right, bottom = min(width, int(np.ceil(box[2]))), min(height, int(np.ceil(box[3])))
        if right <= left or bottom <= top:
            return np.empty((0, 0), np.uint8), (left, top)
        grey = self._grey[top:bottom, left:right]
        ground = _usual(grey)
        if abs(ground - self._ground) > SAME_GROUND:
            return np.abs(grey.astype(np.int16) - ground).astype(np.uint8), (left, top)
        return self.levels[top:bottom, left:right], (left, top)

    def zones(self, boxes: np.ndarray) -> np.ndarray:
        """``[boxes, ZONES * ZONES]``: the mean ink of each part of each box (``[boxes, 4]``), by rows."""
        steps = np.linspace(0, 1, ZONES + 1, dtype=np.float32)
        sizes = np.maximum(boxes[:, 2:] - boxes[:, :2], 1e-3)
        sums = self.sums(boxes[:, :1] + steps * sizes[:, :1], boxes[:, 1:2] + steps * sizes[:, 1:])
        parts = np.diff(np.diff(sums, axis=1), axis=2).transpose(0, 2, 1).reshape(len(boxes), -1)
        return np.maximum(parts, 0) / (sizes.prod(1)[:, None] / ZONES**2)


def _usual(grey: np.ndarray) -> int:
    """The commonest level: that of the ground, where print covers less than half."""
    return int(cv2.calcHist([np.ascontiguousarray(grey)], [0], None, [256], [0, 256]).argmax())


def _from_end(grey: np.ndarray, ground: int) -> np.ndarray:
    return cv2.bitwise_not(grey) if ground == 255 else grey


def _runs(characters: Characters, shape: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    """The boxes of runs, in whole pixels of the page."""
    each, height, width = characters.each, shape[0], shape[1]
    begins = characters.runs()
    if not len(begins):
        return []
    lows = np.minimum.reduceat(each["box"][:, :2], begins) - AROUND
    highs = np.maximum.reduceat(each["box"][:, 2:], begins) + AROUND
    limits = np.array([width, height])
    lows = np.clip(np.floor(lows), 0, limits).astype(int)
    highs = np.clip(np.ceil(highs), 0, limits).astype(int)
    inside = (highs - lows > 1).all(1)
    return list(zip(*np.concatenate([lows, highs], 1)[inside].T.tolist(), strict=True)) if inside.any() else []
