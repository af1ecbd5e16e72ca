# SPDX-License-Identifier: Apache-2.0
"""A page that is set from top to bottom."""

from __future__ import annotations

from typing import Any

from PIL import Image, ImageDraw

from ..drawing.block import wrap
from ..drawing.fonts import FACES, Face
from ..pages.page import Page
from ..pages.typeset import set_lines

WIDTH, HEIGHT = 1240, 1754  # A4 at 150 dpi
INK, ACCENT, GREY = (20, 20, 24), (24, 62, 104), (90, 90, 96)


def face(name: str, bold: bool = False) -> Face:
    """Return one of the fonts in ``FACES``."""
    return next(one for one in FACES if one.name == name and one.bold == bold)


class Sheet:
    """A page being set from the top; lengths in px. ``y`` is where the next block goes."""

    def __init__(self, body: Face, head: Face, size: int, left: int, right: int) -> None:
        self.page = Page(Image.new("RGB", (WIDTH, HEIGHT), (255, 255, 255)), [])
        self.body, self.head, self.size = body, head, size
        self.left, self.right, self.y = left, right, 0.0

    def put(
        self,
        label: str,
        lines: list[str],
        size: int | None = None,
        face: Face | None = None,
        gap: float = 0.85,
        align: str = "left",
        ink: tuple[int, int, int] = INK,
        pitch: float = 1.34,
    ) -> None:
        """Set finished lines; ``gap`` in em follows them."""
        size = size or self.size
        set_lines(
            self.page,
            label,
            [(line, 0.0) for line in lines],
            face or self.body,
            size,
            self.left,
            self.y,
            self.right - self.left,
            pitch * size,
            ink,
            align,
        )
        self.y += (len(lines) - 1) * pitch * size + size + gap * size

    def text(self, text: str, justify: bool = False, **options: Any) -> None:
        """Set a paragraph; a text with line breaks of its own keeps them."""
        kept = text.strip().split("\n")
        lines = kept if len(kept) > 1 else wrap(text.split(), self.body, self.size, self.right - self.left, 99)
        self.put("text", lines, align="justify" if justify and len(kept) == 1 else "left", **options)

    def heading(self, text: str, scale: float = 1.2, **options: Any) -> None:
        self.y += 0.35 * self.size
        size = round(self.size * scale)
        lines = wrap(text.split(), self.head, size, self.right - self.left, 2)
        self.put("paragraph_title", lines, size=size, face=self.head, gap=0.6, ink=ACCENT, **options)

    def picture(self, image: Image.Image, label: str) -> None:
        x, y = round((self.left + self.right - image.width) / 2), round(self.y)
        box = (x, y, x + image.width, y + image.height)
        self.page.add_ink(label, box, lambda: self.page.image.paste(image, (x, y)))
        self.y += image.height + 0.7 * self.size

    def rule(self, y: int, width: int = 1) -> None:
        ImageDraw.Draw(self.page.image).line((self.left, y, self.right, y), fill=GREY, width=width)
