# SPDX-License-Identifier: Apache-2.0
"""An answer with places: ``text(x1,y1),(x2,y2)`` for each text on the page, the corners in parts of the page."""

from __future__ import annotations

import re

from docparser.whole_page.block import Block, Box

NUMBER = r"[ ]{0,3}(-?[0-9]{1,9}(?:\.[0-9]{1,9})?)[ ]{0,3}"
PLACE = re.compile(rf"\({NUMBER},{NUMBER}\)[ ]{{0,3}},[ ]{{0,3}}\({NUMBER},{NUMBER}\)")


def texts_of(answer: str, ends: int, size: tuple[int, int]) -> tuple[list[Block], str | None]:
    """The texts with their boxes on a page of ``size``, width and height in pixels; and what was wrong with the places,
    in words, or None.

    ``ends``: what the answer calls the right and the lower end of the page. A box that reaches beyond the page is cut.
    A text without a place, or with one that covers nothing of the page, gets the box of the page: no text is lost.
    """
    page = (0, 0, *size)
    blocks: list[Block] = []
    cut = placeless = textless = at = 0
    for place in PLACE.finditer(answer):
        text, at = answer[at : place.start()].strip(), place.end()
        corners = [float(number) for number in place.groups()]
        if not text:
            textless += 1
            continue
        box = _box(corners, ends, size)
        cut += box is not None and not all(0 <= corner <= ends for corner in corners)
        placeless += box is None
        blocks.append(Block("text", text, box or page))
    if rest := answer[at:].strip():
        placeless += 1
        blocks.append(Block("text", rest, page))
    troubles = [
        (placeless, "without a place on the page, so with the box of the page"),
        (cut, "whose places reach beyond the page, and were cut to it"),
        (textless, "that are places without a text, and were left out"),
    ]
    words = ", ".join(f"{count} {what}" for count, what in troubles if count)
    return blocks, f"of what the VLM spotted there are {words}" if words else None


def _box(corners: list[float], ends: int, size: tuple[int, int]) -> Box | None:
    """The box in pixels, cut to the page; None where nothing of it is left."""
    left, right = sorted(_pixel(corner, ends, size[0]) for corner in corners[0::2])
    top, bottom = sorted(_pixel(corner, ends, size[1]) for corner in corners[1::2])
    return (left, top, right, bottom) if left < right and top < bottom else None


def _pixel(corner: float, ends: int, pixels: int) -> int:
    return round(min(max(corner / ends, 0.0), 1.0) * pixels)
