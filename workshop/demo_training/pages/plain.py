# SPDX-License-Identifier: Apache-2.0
"""Plain pages, as a word processor leaves them: a bold title above paragraphs in one or two columns.

Drawn for measuring only. Nothing here is shared with the pages of training but the words' list, so a habit of those
pages (where titles stand, how large they are, what words follow each other) is no help.
"""

from __future__ import annotations

import random

from PIL import Image, ImageDraw

from ..drawing.fonts import CORE, Face
from ..drawing.words import COMMON, words
from .page import Page
from .typeset import set_lines

WIDTH, HEIGHT, MARGIN, COLUMN = 1240, 1754, 90, 500  # px
SIZES = (24, 28, 32, 40, 48)  # px of an em
FAMILIES = ("DejaVu Sans", "Liberation Sans", "Liberation Serif")


def draw_plain_page(seed: int, split: str, function_words: float = 0.45) -> Page:
    """The page of ``seed`` with words of ``split``; ``function_words`` is the share of the commonest English words.

    Size, family and columns go round with ``seed``: thirty seeds have every combination once.
    """
    rng = random.Random(f"plain-{split}-{seed}-{function_words}")
    size, family, columns = SIZES[seed % 5], FAMILIES[seed % 3], 1 + seed % 2
    body, bold = (next(face for face in CORE if face.name == family and face.bold == heavy) for heavy in (False, True))
    return typeset_plain(rng, split, body, bold, size, columns, function_words)


def typeset_plain(
    rng: random.Random, split: str, body: Face, bold: Face, size: int, columns: int, function_words: float = 0.45
) -> Page:
    """The page in these faces; ``size`` is the body's, px of an em."""
    vocabulary = [word for word in words(split) if "'" not in word and len(word) < 11]
    weights = [1 / (rank + 4) for rank in range(len(COMMON))]

    def word() -> str:
        if rng.random() < 0.07:
            return str(rng.randint(1, 9999))
        chosen = rng.choices(COMMON, weights)[0] if rng.random() < function_words else rng.choice(vocabulary).lower()
        return chosen + (rng.choice(",.") if rng.random() < 0.1 else "")

    page = Page(Image.new("RGB", (WIDTH, HEIGHT), "white"), [])
    title = " ".join(rng.choice(vocabulary) for _ in range(3)).title()
    large = round(1.4 * size)
    set_lines(page, "doc_title", [(title, 0.0)], bold, large, MARGIN, MARGIN, WIDTH - 2 * MARGIN, large, (0, 0, 0))
    width = WIDTH - 2 * MARGIN if columns == 1 else COLUMN
    measure = ImageDraw.Draw(page.image)
    for column in range(columns):
        left, top = MARGIN + column * (COLUMN + 60), MARGIN + 3 * size
        while top < HEIGHT - 250:
            lines: list[tuple[str, float]] = []
            for _ in range(rng.randint(2, 5)):
                line = word()
                while measure.textlength(f"{line} {(following := word())}", body.at(size)) <= width:
                    line = f"{line} {following}"
                lines.append((line, 0.0))
            pitch = round(1.35 * size)
            set_lines(page, "text", lines, body, size, left, top, width, pitch, (0, 0, 0))
            top += len(lines) * pitch + size
    return page
