# SPDX-License-Identifier: Apache-2.0
"""A page as it was read, and what its reader has to say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:  # the processes that read documents need no pydantic
    from docparser.contract.answers import Remark

# Kinds of notes, beside those of ``opening``. They say what the page is like; nothing failed, so none makes an answer
# partial.
LONG = "long"  # the layout model sees pages squeezed into a square
BLANK, DARK = "blank", "dark"  # nothing was read, and all is one tone
MOST_STRETCHED = 4  # times as long as wide; a till roll or a screenshot of a whole web page is longer
TONE = 40  # levels of 255 around the page's own
INK = 1e-4  # of a page's pixels; a line of text has more
DARKEST_PAPER = 100


class Page(NamedTuple):
    """``pixels``: uint8 ``[height, width, 3]``, blue first. ``notes`` as ``docparser`` of an answer has them."""

    pixels: np.ndarray
    notes: list[Remark]


def note(kind: str, message: str) -> Remark:
    return {"kind": kind, "message": message}


def remarks(pixels: np.ndarray, *, read: bool) -> list[Remark]:
    """What a page's picture tells, of which something was ``read`` or nothing."""
    height, width = pixels.shape[:2]
    found = []
    if max(height, width) > MOST_STRETCHED * min(height, width):
        times = max(height, width) / min(height, width)
        found.append(note(LONG, f"the page is {times:.1f} times as long as wide, and small text may be lost; cut it"))
    if not read:
        greys = np.bincount(pixels[::2, ::2, 1].ravel(), minlength=256)
        tone = int(np.searchsorted(np.cumsum(greys), greys.sum() / 2))
        if greys[max(0, tone - TONE) : tone + TONE + 1].sum() >= (1 - INK) * greys.sum():
            dark = tone < DARKEST_PAPER
            found.append(note(DARK if dark else BLANK, f"the page is {'dark' if dark else 'blank'}: one tone all over"))
    return found
