# SPDX-License-Identifier: Apache-2.0
"""Kinds of documents: article, letter, invoice, plain page."""

from __future__ import annotations

import random
from collections.abc import Callable

from PIL import Image, ImageDraw

from ..drawing.block import text_width, wrap
from ..drawing.fonts import Face
from .flow import Flow
from .page import Block, Page
from .paper import age
from .style import Style, draw_style
from .typeset import set_lines


class Document:
    """Draws one page of a kind. ``head`` and ``foot`` collect marginal blocks, which are read first and last."""

    def __init__(self, style: Style, rng: random.Random, split: str):
        self.style, self.rng = style, rng
        self.page = Page(Image.new("RGB", (style.width, style.height), style.paper), [])
        self.flow = Flow(self.page, style, rng, split)
        self.left, self.right = style.left, style.width - style.right
        self.top, self.bottom = float(style.top), float(style.height - style.bottom)

    def _line(self, label: str, text: str, size: int, y: float, align: str, face: Face | None = None) -> Block | None:
        face = face or self.style.body
        while text and text_width(face, size, text) > 0.6 * (self.right - self.left):
            text = text[:-1].rstrip()
        width = self.right - self.left
        return set_lines(self.page, label, [(text, 0.0)], face, size, self.left, y, width, size, self.style.ink, align)

    def marginalia(self) -> tuple[list[Block], list[Block]]:
        """Header, footer and page number; returns (blocks at the top, blocks at the bottom)."""
        rng, style = self.rng, self.style
        size = max(15, min(30, round(style.size * rng.uniform(0.7, 0.95))))
        number = rng.choice(["{n}", "{n}", "- {n} -", "Page {n}", "Page {n} of {m}", "{n} / {m}"])
        n = rng.randint(1, 400)
        number = number.format(n=n, m=n + rng.randint(0, 40))
        start = len(self.page.blocks)
        y = style.top * rng.uniform(0.3, 0.5)
        at_top = rng.random() < 0.2
        if rng.random() < 0.55:
            align = rng.choice(["left", "left", "center", "right"])
            self._line("header", self.flow.title_text(2, 7), size, y, align)
            if at_top and align in ("left", "center"):
                self._line("number", number, size, y, "right")
            elif rng.random() < 0.2 and align == "left":
                self._line("header", self.flow.title_text(1, 3)[:24], size, y, "right")
            if rng.random() < 0.3:
                self.flow.rule(self.left, self.right, y + size * 1.35)
            self.top = max(self.top, y + 2.6 * size)
        elif at_top:
            self._line("number", number, size, y, rng.choice(["right", "center"]))
            self.top = max(self.top, y + 2.6 * size)
        head = self.page.blocks[start:]
        start = len(self.page.blocks)
        y = style.height - style.bottom * rng.uniform(0.45, 0.62)
        self.bottom = min(self.bottom, y - 1.6 * size)
        footed = rng.random() < 0.35
        if footed:
            if rng.random() < 0.3:
                self.flow.rule(self.left, self.right, y - size * 0.6)
            self._line("footer", self.flow.title_text(2, 7), size, y, rng.choice(["left", "left", "center"]))
        if not at_top and rng.random() < 0.65:
            centred = self.page.blocks and footed
            self._line("number", number, size, y, "right" if centred else rng.choice(["center", "center", "right"]))
        return head, self.page.blocks[start:]

    def footnotes(self) -> list[Block]:
        """One or two small notes under a short rule at the foot of the text."""
        rng, style = self.rng, self.style
        size = max(15, round(style.size * rng.uniform(0.68, 0.82)))
        count = rng.randint(1, 2)
        rows = [rng.randint(1, 2) for _ in range(count)]
        y = self.bottom - sum(rows) * size * 1.25 - (count - 1) * 0.5 * size
        self.bottom = y - 2.2 * size
        ImageDraw.Draw(self.page.image).line(
            (self.left, y - 0.6 * size, self.left + 0.3 * (self.right - self.left), y - 0.6 * size), fill=style.ink
        )
        start = len(self.page.blocks)
        for index, lines in enumerate(rows):
            mark = f"{rng.choice(['', '['])}{index + 1}".replace("[1", "[1]").replace("[2", "[2]")
            words = [mark, *(self.flow.source.sentence(8 * lines) + " " + self.flow.source.sentence()).split(" ")]
            wrapped = [(line, 0.0) for line in wrap(words, style.body, size, self.right - self.left, lines)]
            set_lines(
                self.page,
                "footnote",
                wrapped,
                style.body,
                size,
                self.left,
                y,
                self.right - self.left,
                1.25 * size,
                style.ink,
            )
            y += len(wrapped) * size * 1.25 + 0.5 * size
        return self.page.blocks[start:]

    def title(self) -> None:
        """A document title of one to three lines across the page."""
        rng, style = self.rng, self.style
        # A third are hardly larger than the text, as word processors set them: bold, so that they are seen as titles.
        modest = rng.random() < 0.35
        if modest:
            size = round(style.size * rng.uniform(1.2, 1.6))
        else:
            size = max(round(style.size * rng.uniform(1.6, 2.6)), round(style.width * 0.028))
        face = style.heading if modest or rng.random() < 0.85 else style.body
        size = style.fit(face, size)
        width = self.right - self.left
        align = "left" if modest and rng.random() < 0.6 else rng.choice(["center", "center", "left"])
        words = self.flow.title_text(2, 9).split(" ")
        lines = [(line, 0.0) for line in wrap(words, face, size, width, 3)]
        ink = style.accent if rng.random() < 0.3 else style.ink
        set_lines(self.page, "doc_title", lines, face, size, self.left, self.top, width, size * 1.2, ink, align)
        self.top += (len(lines) - 1) * size * 1.2 + size + max(0.5 * size, self.flow.gap)
        if rng.random() < 0.35:
            by = min(style.size, 40)
            text = [(" ".join(self.flow.plain.word() for _ in range(rng.randint(2, 6)))[:40], 0.0)]
            set_lines(self.page, "text", text, style.body, by, self.left, self.top, width, by, style.ink, align)
            self.top += by + self.flow.gap + 0.4 * style.size
        if rng.random() < 0.15:
            self.top = self.flow.rule(self.left, self.right, self.top)

    def columns(self, bottom: float) -> None:
        """One band of columns from the present top to ``bottom``."""
        lowest = self.top
        for left, right in self.style.column_boxes():
            # A column may stop early, as the last one of a document does.
            end = bottom if self.rng.random() < 0.8 else self.top + (bottom - self.top) * self.rng.uniform(0.4, 1)
            lowest = max(lowest, self.flow.fill(left, right, self.top, end))
        self.top = lowest

    def spanning(self) -> bool:
        """Something that runs across both columns and is wide enough to be seen to; False where it has no room."""
        rng, flow, style = self.rng, self.flow, self.style
        before = len(self.page.blocks)
        self.top += 0.5 * style.size
        room = self.bottom - self.top
        kind = rng.choice(["heading", "figure", "table", "paragraph"])
        if kind == "heading":
            self.top = flow.heading(self.left, self.right, self.top, room, align="center")
        elif kind == "figure":
            self.top = flow.figure(self.left, self.right, self.top, min(room, style.height * 0.3), place=0.5)
        elif kind == "table":
            self.top = flow.table(self.left, self.right, self.top, min(room, style.height * 0.3))
        else:
            self.top = flow.paragraph(self.left, self.right, self.top, room, rng.randint(2, 4))
        return len(self.page.blocks) > before


def article(document: Document) -> None:
    """Title, then one or two columns, at times with something across them."""
    rng = document.rng
    if rng.random() < 0.65:
        document.title()
    if document.style.columns == 1:
        document.flow.fill(document.left, document.right, document.top, document.bottom)
        return
    if rng.random() < 0.2:
        document.top = document.flow.paragraph(
            document.left, document.right, document.top, document.bottom - document.top, rng.randint(2, 5)
        )
        document.top += 0.3 * document.style.size
    if rng.random() < 0.35:
        room = document.bottom - document.top
        document.columns(document.top + room * rng.uniform(0.3, 0.6))
        if not document.spanning():
            return
    document.columns(document.bottom)


def letter(document: Document) -> None:
    """Sender, date, recipient, subject, paragraphs, closing."""
    rng, flow, style, page = document.rng, document.flow, document.style, document.page
    width = document.right - document.left
    pitch = flow.pitch

    def address(top: float, align: str) -> float:
        face, size = style.body, style.size
        lines = [
            (" ".join(flow.plain.word() for _ in range(rng.randint(1, 3)))[:28], 0.0) for _ in range(rng.randint(2, 5))
        ]
        set_lines(page, "text", lines, face, size, document.left, top, width, pitch, style.ink, align)
        return top + len(lines) * pitch + flow.gap + 0.5 * style.size

    top = address(document.top, rng.choice(["left", "right"]))
    if rng.random() < 0.8:
        day, month = rng.randint(1, 28), rng.choice(["January", "March", "May", "July", "October"])
        date = f"{day} {month} {rng.randint(1990, 2030)}"
        align = rng.choice(["left", "right"])
        set_lines(
            page, "text", [(date, 0.0)], style.body, style.size, document.left, top, width, pitch, style.ink, align
        )
        top += style.size + flow.gap + 0.5 * style.size
    top = address(top, "left")
    if rng.random() < 0.6:
        top = flow.heading(document.left, document.right, top, document.bottom - top, align="left")
    for _ in range(rng.randint(2, 6)):
        top = flow.paragraph(document.left, document.right, top, document.bottom - top - 5 * pitch)
    top += 0.4 * style.size
    if document.bottom - top > 2 * pitch + flow.gap:
        top = flow.paragraph(document.left, document.left + 0.5 * width, top, document.bottom - top, 1)
        flow.paragraph(document.left, document.left + 0.4 * width, top + pitch, document.bottom - top - pitch, 1)


def invoice(document: Document) -> None:
    """A word as title, two address blocks side by side, a table, totals and terms."""
    rng, flow, style, page = document.rng, document.flow, document.style, document.page
    document.title()
    width = document.right - document.left
    half = width * 0.45
    tallest = document.top
    for x in (document.left, document.right - half):
        lines = [
            (wrap(flow.source.sentence(3).split(" "), style.body, style.size, half, 1)[0], 0.0)
            for _ in range(rng.randint(2, 5))
        ]
        set_lines(page, "text", lines, style.body, style.size, x, document.top, half, flow.pitch, style.ink)
        tallest = max(tallest, document.top + (len(lines) - 1) * flow.pitch + style.size)
    top = tallest + max(flow.gap, 0.8 * style.size)
    if rng.random() < 0.3:
        top = flow.paragraph(document.left, document.right, top, document.bottom - top, 2)
    top = flow.table(document.left, document.right, top, document.bottom - top)
    flow.fill(document.left, document.right, top, min(document.bottom, top + style.height * rng.uniform(0.1, 0.5)), 0.3)


def sparse(document: Document) -> None:
    """A page that is mostly empty: a cover, a last page."""
    rng = document.rng
    if rng.random() < 0.5:
        document.top += document.style.height * rng.uniform(0, 0.3)
        document.title()
    bottom = document.top + (document.bottom - document.top) * rng.uniform(0.1, 0.5)
    document.flow.fill(document.left, document.right, document.top, bottom, 0.5)


KINDS: dict[str, tuple[float, Callable[[Document], None]]] = {
    "article": (0.68, article),
    "letter": (0.12, letter),
    "invoice": (0.12, invoice),
    "sparse": (0.08, sparse),
}


def draw_page(seed: int, split: str, kind: str | None = None, columns: int | None = None, core: bool = False) -> Page:
    """Draw the page of ``seed`` with the words of ``split`` (``train`` or ``heldout``).

    ``kind`` is one of KINDS, random by default; ``core`` keeps to the faces and sizes on which the demo VLM is
    measured. The same arguments give the same page.
    """
    rng = random.Random(f"{split}-{seed}-{kind}-{columns}")
    kind = kind or rng.choices(list(KINDS), [share for share, _ in KINDS.values()])[0]
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r} is unknown; expected one of {tuple(KINDS)}")
    document = Document(draw_style(rng, columns, core), rng, split)
    head, foot = document.marginalia()
    notes = document.footnotes() if kind == "article" and rng.random() < 0.14 else []
    margin = len(document.page.blocks)
    KINDS[kind][1](document)
    document.page.blocks = [*head, *document.page.blocks[margin:], *notes, *foot]
    document.page.image = age(document.page.image, rng)
    return document.page
