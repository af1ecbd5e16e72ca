# SPDX-License-Identifier: Apache-2.0
"""A document as a list of blocks, which each typesetter writes in its own language."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from .prose import Text

#: Kinds within a document and their shares; before them may stand one of kind "document_title".
KINDS = {"paragraph": 10, "title": 2, "items": 2, "numbered": 1, "code": 2, "quote": 1}


@dataclass(frozen=True)
class TextBlock:
    """``kind`` is of KINDS, or "document_title"; ``parts`` are its paragraphs, items or lines of code; ``term`` may
    stand among their words."""

    kind: str
    parts: tuple[str, ...]
    term: str = ""


@dataclass(frozen=True)
class Form:
    """What a document is given from outside. ``titled``: it begins with a title of its own, larger than those of its
    sections. ``paper`` is "A4" or "A5", on which print is half as large again."""

    titled: bool = False
    paper: str = "A4"

    @property
    def millimetres(self) -> tuple[int, int]:
        return {"A4": (210, 297), "A5": (148, 210)}[self.paper]

    def characters(self, pages: int) -> int:
        """On ``pages`` pages of 10.5 points, about."""
        return round(pages * 2600 * self.millimetres[0] * self.millimetres[1] / (210 * 297))


PLAIN = Form()


@dataclass(frozen=True)
class SetDocument:
    """A PDF and the blocks that it was set from."""

    pdf: Path
    blocks: list[TextBlock]


def document(rng: random.Random, prose: Text, characters: int, form: Form = PLAIN) -> list[TextBlock]:
    """Blocks of about ``characters`` characters."""
    blocks = [TextBlock("document_title" if form.titled else "title", (prose.title(),))]
    length = 0
    while length < characters:
        kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
        parts: tuple[str, ...]
        if kind == "title":
            parts = (prose.title(),)
        elif kind in ("items", "numbered"):
            parts = tuple(prose.item() for _ in range(rng.randint(2, 7)))
        elif kind == "code":
            parts = tuple(prose.code())
        else:
            parts = (prose.paragraph(),)
        blocks.append(TextBlock(kind, parts, prose.term()))
        length += sum(map(len, parts))
    return blocks


def spans(rng: random.Random, text: str, term: str) -> list[tuple[str, str]]:
    """``text`` in pieces (style, piece), in which a few words are ``emph``, ``strong`` or ``code``, the last often
    with ``term`` in their place; the rest "" ."""
    words = text.split(" ")
    pieces: list[tuple[str, str]] = []
    place = 0
    while place < len(words):
        plain = rng.randint(4, 60)
        pieces.append(("", " ".join(words[place : place + plain])))
        place += plain
        if place < len(words):
            count, style = rng.randint(1, 4), rng.choice(("emph", "emph", "strong", "code", "code"))
            new = style == "code" and rng.random() < 0.7
            pieces.append((style, term if new else " ".join(words[place : place + count])))
            place += count
    return pieces
