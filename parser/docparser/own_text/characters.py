# SPDX-License-Identifier: Apache-2.0
"""The characters of a page as arrays, and as bytes between renderer and worker."""

from __future__ import annotations

import dataclasses
import struct

import numpy as np

MOST_CHARACTERS = 50_000  # of a page; the densest of real pages has some 15,000
MOST_STYLES = 5_000
FURTHEST = 1e6  # pixels from the page's corner; what stands further away is left out

# One row for each character. Boxes and origins are pixels of the rendered page, from its upper left corner.
CHARACTER = np.dtype(
    [
        ("code", "<u4"),  # the character, as Unicode
        ("box", "<f4", 4),  # left, top, right, bottom of the glyph's outline
        ("origin", "<f4", 2),  # x, y: where the glyph begins on its baseline
        ("style", "<u2"),  # its row in ``styles``
        ("flags", "u1"),
    ]
)
# No Unicode is known; of a glyph of several characters, not the first; after a blank, which the file has or PDFium
# sees: letters that are spaced have none between them.
UNMAPPED, PIECE, AFTER_BLANK = 1, 2, 4

# One row for each run that is drawn alike.
STYLE = np.dtype(
    [
        ("font", "<u2"),  # fonts of the page are numbered
        ("size", "<f4"),  # pixels of an em
        ("angle", "<f4"),  # degrees in which the text runs, clockwise; 0 is to the right
        ("colour", "<u4"),  # red << 24 | green << 16 | blue << 8 | opacity
        ("mode", "u1"),  # text rendering mode (ISO 32000-2, 9.3.6): 3 and 7 draw nothing
    ]
)
NEAR = 2.5  # ems from the beginning of a character to that of the next, in a run
_HEAD = struct.Struct("<II?")


class ForeignBytes(ValueError):
    """Bytes that no renderer sends."""


@dataclasses.dataclass(frozen=True)
class Characters:
    """``each``: ``[characters]`` of CHARACTER, in the order of the file; blanks are left out, for they draw nothing.
    ``styles``: ``[styles]`` of STYLE. ``complete`` is False where the page has more than MOST_CHARACTERS."""

    each: np.ndarray
    styles: np.ndarray
    complete: bool = True

    @classmethod
    def none(cls) -> Characters:
        return cls(np.empty(0, CHARACTER), np.empty(0, STYLE))

    def __len__(self) -> int:
        return len(self.each)

    def runs(self) -> np.ndarray:
        """Where runs begin: characters that follow each other in the file, on a line, near to each other, and in one
        style."""
        if not len(self.each):
            return np.empty(0, np.int64)
        size = self.styles["size"][self.each["style"]]
        ahead = np.diff(self.each["box"][:, 0], prepend=self.each["box"][0, 0])
        apart = np.diff(self.each["style"].astype(np.int32), prepend=-1) != 0
        apart |= np.abs(np.diff(self.each["origin"][:, 1], prepend=self.each["origin"][0, 1])) > 0.3 * size
        apart |= (ahead < 0) | (ahead > NEAR * size)
        return np.flatnonzero(apart)

    def to_bytes(self) -> bytes:
        return _HEAD.pack(len(self.each), len(self.styles), self.complete) + self.each.tobytes() + self.styles.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Characters:
        """Raises ForeignBytes: the sender works on strangers' files, so nothing it says is believed unseen."""
        if len(data) < _HEAD.size:
            raise ForeignBytes("a text without a head")
        characters, styles, complete = _HEAD.unpack_from(data)
        if characters > MOST_CHARACTERS or styles > MOST_STYLES:
            raise ForeignBytes(f"{characters} characters in {styles} styles")
        end = _HEAD.size + characters * CHARACTER.itemsize
        if len(data) != end + styles * STYLE.itemsize:
            raise ForeignBytes(f"{len(data)} bytes for {characters} characters in {styles} styles")
        found = cls(
            np.frombuffer(data, CHARACTER, characters, _HEAD.size), np.frombuffer(data, STYLE, styles, end), complete
        )
        if characters and not (
            found.each["style"].max() < styles
            and found.each["code"].max() <= 0x10FFFF
            and (np.abs(found.each["box"]) <= FURTHEST).all()
            and (np.abs(found.each["origin"]) <= FURTHEST).all()
        ):
            raise ForeignBytes("characters out of bounds")
        if not ((np.abs(found.styles["size"]) <= FURTHEST) & (np.abs(found.styles["angle"]) <= 360)).all():
            raise ForeignBytes("styles out of bounds")
        return found


MOST_BYTES = _HEAD.size + MOST_CHARACTERS * CHARACTER.itemsize + MOST_STYLES * STYLE.itemsize
