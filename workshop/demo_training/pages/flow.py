# SPDX-License-Identifier: Apache-2.0
"""Filling a column with paragraphs, headings, lists, tables and figures."""

from __future__ import annotations

import random

from PIL import ImageDraw

from ..drawing.block import wrap
from ..drawing.words import TextSource
from .figures import chart, picture
from .page import Page
from .style import Style
from .tables import random_table
from .typeset import set_lines, wrap_hanging


class Flow:
    """Places blocks downward in one column; all lengths in px."""

    def __init__(self, page: Page, style: Style, rng: random.Random, split: str):
        self.page, self.style, self.rng = page, style, rng
        self.source = TextSource(split, rng)
        self.plain = TextSource(split, rng, strange=0.03)

    @property
    def pitch(self) -> float:
        return self.style.size * self.style.pitch

    @property
    def gap(self) -> float:
        """Space below a block, beyond the em of its last line: more than lines have between them, by ``style.gap``."""
        return max(self.pitch - self.style.size, 0.0) + max(self.style.gap * self.style.size, 5.0)

    def title_text(self, low: int, high: int) -> str:
        text = self.plain.sentence(self.rng.randint(low, high)).rstrip(".?!:;, ") or self.rng.choice(
            self.plain.vocabulary
        )
        return text.upper() if self.rng.random() < 0.08 else text

    def paragraph(self, left: float, right: float, top: float, room: float, max_lines: int | None = None) -> float:
        """Returns the y below the paragraph and its gap, or ``top`` where not even a line fits."""
        rng, style = self.rng, self.style
        fits = int((room - style.size) / self.pitch) + 1
        wanted = max_lines or rng.choice([1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, rng.randint(7, 8)])
        if style.longest > 8 and not max_lines and rng.random() < 0.6:
            wanted = rng.randint(4, style.longest)
        count = min(fits, wanted)
        if count < 1:
            return top
        width = right - left
        lines = wrap_hanging(self.source.stream(), style.body, style.size, width, count, style.indent * style.size)
        if rng.random() < 0.75:
            # The last line of a real paragraph is rarely full.
            words = lines[-1][0].split(" ")
            lines[-1] = (" ".join(words[: rng.randint(1, len(words))]), lines[-1][1])
        align = "justify" if style.justify else "left"
        set_lines(self.page, "text", lines, style.body, style.size, left, top, width, self.pitch, style.ink, align)
        return top + (len(lines) - 1) * self.pitch + style.size + self.gap

    def items(self, left: float, right: float, top: float, room: float) -> float:
        """A list: one block when its items follow each other like lines."""
        rng, style = self.rng, self.style
        count = min(int((room - style.size) / self.pitch) + 1, rng.randint(2, 6))
        if count < 2:
            return self.paragraph(left, right, top, room)
        numbered = rng.random() < 0.5
        marker = rng.choice(["- ", "* ", "-  "])
        lines = []
        for index in range(count):
            lead = f"{index + 1}. " if numbered else marker
            words = (lead + self.source.sentence(rng.randint(3, 9))).split(" ")
            lines.append((wrap(words, style.body, style.size, right - left, 1)[0], 0.0))
        set_lines(self.page, "text", lines, style.body, style.size, left, top, right - left, self.pitch, style.ink)
        return top + (count - 1) * self.pitch + style.size + self.gap

    def heading(self, left: float, right: float, top: float, room: float, align: str | None = None) -> float:
        """A paragraph title of one or two lines; needs room for text below it."""
        rng, style = self.rng, self.style
        face = style.heading
        # Among bold text, or in a light face, only its size tells a heading.
        plain = style.body.bold or not face.bold
        size = style.fit(face, style.size * rng.choice([1.3, 1.4, 1.55] if plain else [1.0, 1.12, 1.2, 1.35, 1.5]))
        if room < 2.2 * size + 3 * self.pitch:
            return top
        text = self.title_text(5, 10) if rng.random() < 0.25 else self.title_text(1, 6)
        if rng.random() < 0.4:
            text = f"{rng.randint(1, 9)}{rng.choice(['', '.', f'.{rng.randint(1, 9)}'])} {text}"
        lines = [(line, 0.0) for line in wrap(text.split(" "), face, size, right - left, 2)]
        top += max(0.0, rng.uniform(0.2, 0.8) * style.size)
        align = align or rng.choice(["left"] * 5 + ["center"])
        ink = style.accent if rng.random() < 0.4 else style.ink
        set_lines(self.page, "paragraph_title", lines, face, size, left, top, right - left, size * 1.2, ink, align)
        return top + (len(lines) - 1) * size * 1.2 + size + max(self.gap * rng.uniform(0.6, 1.0), 8)

    def table(self, left: float, right: float, top: float, room: float) -> float:
        block = random_table(
            self.page, self.style, self.source, self.rng, int(left), int(top + 4), int(right - left), int(room - 12)
        )
        return block.bbox[3] + self.gap + 0.6 * self.style.size if block else top

    def figure(self, left: float, right: float, top: float, room: float, place: float | None = None) -> float:
        """A picture or chart, often with a caption, which the demo labels as text; ``place`` is 0 left to 1 right."""
        rng, style = self.rng, self.style
        width = int((right - left) * rng.uniform(0.55, 1.0))
        height = int(min(width * rng.uniform(0.4, 0.9), room - 5 * style.size))
        if height < 90 or width < 120:
            return top
        x = int(left + (right - left - width) * (rng.choice([0, 0.5, 0.5]) if place is None else place))
        start = int(top + 0.2 * style.size)
        if rng.random() < 0.6:
            label, drawing = "image", picture(width, height, rng)
        else:
            label, drawing = "chart", chart(width, height, rng, self.plain, style.paper)
        region = (x, start, x + width, start + height)
        self.page.add_ink(label, region, lambda: self.page.image.paste(drawing, (x, start)))
        y = start + height + max(0.7 * style.size, 12)
        if rng.random() < 0.6:
            size = style.fit(style.body, max(17, round(style.size * rng.uniform(0.8, 0.95))))
            words = f"{rng.choice(['Figure', 'Fig.', 'Chart'])} {rng.randint(1, 20)}. {self.plain.sentence()}".split(
                " "
            )
            lines = [(line, 0.0) for line in wrap(words, style.body, size, right - left, 2)]
            align = rng.choice(["center", "left"])
            set_lines(self.page, "text", lines, style.body, size, left, y, right - left, size * 1.25, style.ink, align)
            y += (len(lines) - 1) * size * 1.25 + size + max(self.gap, 0.8 * size)
        return y

    def rule(self, left: float, right: float, top: float) -> float:
        """A thin line: decoration, not a block."""
        draw = ImageDraw.Draw(self.page.image)
        draw.line((left, top, right, top), fill=self.style.accent, width=self.rng.choice([1, 2, 3]))
        return top + max(0.6 * self.style.size, 10)

    def fill(self, left: float, right: float, top: float, bottom: float, busy: float = 1.0) -> float:
        """Fill from ``top`` to ``bottom`` with a random run of blocks; ``busy`` scales figures and tables."""
        rng = self.rng
        previous = None
        while bottom - top > self.style.size * 1.1:
            room = bottom - top
            roll = rng.random()
            if previous != "heading" and roll < 0.17:
                kind, y = "heading", self.heading(left, right, top, room)
            elif roll < 0.17 + 0.08 * busy:
                kind, y = "table", self.table(left, right, top, room)
            elif roll < 0.17 + 0.17 * busy:
                kind, y = "figure", self.figure(left, right, top, room)
            elif roll < 0.42:
                kind, y = "list", self.items(left, right, top, room)
            else:
                kind, y = "text", self.paragraph(left, right, top, room)
            if y == top:
                y = self.paragraph(left, right, top, room)
                if y == top:
                    break
                kind = "text"
            top, previous = y, kind
        return top
