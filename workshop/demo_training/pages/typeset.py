# SPDX-License-Identifier: Apache-2.0
"""Setting text blocks on a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from ..drawing.block import Colour, draw_line, text_width, wrap
from ..drawing.fonts import Face
from .page import Block, Page


def wrap_hanging(
    words: Iterable[str], face: Face, size: int, width: float, max_lines: int, first_indent: float = 0.0
) -> list[tuple[str, float]]:
    """Lines as (text, indent in px); only the first line is indented."""
    words = iter(words)
    if first_indent <= 0:
        return [(line, 0.0) for line in wrap(words, face, size, width, max_lines)]
    held: list[str] = []

    def remember() -> Iterator[str]:
        for word in words:
            held.append(word)
            yield word

    first = wrap(remember(), face, size, width - first_indent, 1)
    lines = [(line, first_indent) for line in first]
    if max_lines > 1 and held and first and len(first[0].split(" ")) < len(held):
        # The word that did not fit on the first line begins the second.
        rest = chain([held[-1]], words)
        lines += [(line, 0.0) for line in wrap(rest, face, size, width, max_lines - 1)]
    return lines


def set_lines(
    page: Page,
    label: str,
    lines: list[tuple[str, float]],
    face: Face,
    size: int,
    left: float,
    top: float,
    width: float,
    pitch: float,
    ink: Colour,
    align: str = "left",
) -> Block | None:
    """Draw (text, indent) ``lines`` ``pitch`` px apart; ``top`` is the ascenders' top of the first line.

    ``align`` is left, center, right or justify. Returns the block with the ink's bounds.
    """
    ascent = -face.at(size).getbbox("Ahlp", anchor="ls")[1]
    region = (
        int(left - size),
        int(top - size),
        int(left + width + size),
        int(top + ascent + pitch * (len(lines) - 1) + size),
    )

    def paint() -> None:
        for index, (text, indent) in enumerate(lines):
            x, stretch = left + indent, None
            slack = width - indent - text_width(face, size, text)
            if align == "justify" and index + 1 < len(lines) and slack < 0.3 * width:
                stretch = width - indent
            elif align == "center":
                x += slack / 2
            elif align == "right":
                x += slack
            draw_line(page.image, face, size, text, x, top + ascent + index * pitch, ink, stretch)

    return page.add_ink(label, region, paint, lines=[text for text, _ in lines])
