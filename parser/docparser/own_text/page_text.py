# SPDX-License-Identifier: Apache-2.0
"""A page's own text, block by block, each with a verdict: this is what the worker asks."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable

import numpy as np

from docparser.own_text.characters import Characters
from docparser.own_text.doubts import Doubt
from docparser.own_text.lines import Box, Line, lines_of

UNDRAWN = (3, 7)  # text rendering modes (ISO 32000-2, 9.3.6)


@dataclasses.dataclass(frozen=True)
class BlockText:
    """What the page says in ``box`` (pixels). ``doubts`` are why it must not be taken, the gravest first; without any,
    it is true: every character was found in the picture, and no print besides.

    A doubtful text is for comparisons only: it may be a lie, and must reach no output.
    """

    box: Box
    lines: tuple[Line, ...]
    doubts: tuple[Doubt, ...]

    @property
    def true(self) -> bool:
        return not self.doubts

    @property
    def text(self) -> str:
        """The lines as one paragraph: blanks between them (none between ideographs), hyphens of line ends taken out."""
        return " ".join(line.text for line in self.lines)


class OwnText:
    """The text of one page. Cheap to make where the page says nothing; the picture is looked at once, by the first
    question."""

    def __init__(self, characters: Characters, pixels: np.ndarray) -> None:
        """``pixels``: the picture that the renderer sent with them, uint8 ``[height, width, 3]``, blue first. A page
        that was turned or flattened since has other places: make none for it."""
        self._characters, self._pixels = characters, pixels
        modes = characters.styles["mode"][characters.each["style"]]
        self._drawn = ~np.isin(modes, UNDRAWN)
        boxes = characters.each["box"]
        self._middles = (boxes[:, :2] + boxes[:, 2:]) / 2

    def __len__(self) -> int:
        """Characters on the page that are said to be drawn; 0 for a scan, also one with another's OCR."""
        return int(self._drawn.sum())

    def blocks(self, boxes: Iterable[tuple[float, float, float, float]]) -> list[BlockText]:
        """The text of each box (left, top, right, bottom), in their order. A character belongs to every box that holds
        its middle: ask for boxes that do not overlap where a text must come once."""
        return [self._block(Box(*box)) for box in boxes]

    def _block(self, box: Box) -> BlockText:
        inside = ((self._middles >= box[:2]) & (self._middles <= box[2:])).all(1)
        part = Characters(self._characters.each[inside], self._characters.styles)
        return BlockText(box, tuple(lines_of(part)), (Doubt.UNPROVEN if len(part) else Doubt.EMPTY,))

    def outside(self, boxes: Iterable[tuple[float, float, float, float]]) -> list[BlockText]:
        """The text that lies in none of ``boxes``, in pieces that stand together (paragraphs, rows of a table without
        rules), from top to bottom. Only what can be seen on the page: what is hidden is in ``hidden``."""
        return []

    @property
    def hidden(self) -> collections.Counter[Doubt]:
        """Characters that the page says and does not show, by the reason: a file that lies often has many."""
        return collections.Counter({Doubt.INVISIBLE: int((~self._drawn).sum())})
