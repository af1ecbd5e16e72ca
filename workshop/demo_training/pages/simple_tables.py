# SPDX-License-Identifier: Apache-2.0
"""Pages with a simple table between a line of text and paragraphs: one line of print a cell, no cell over several rows
or columns.

Drawn for measuring only. Nothing here is shared with the tables of training but the words' list.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from PIL import Image, ImageDraw

from ..drawing.block import Colour, draw_line, text_width, wrap
from ..drawing.fonts import CORE, Face
from ..drawing.words import words
from .page import Block, Page
from .typeset import set_lines

WIDTH, HEIGHT, MARGIN = 1240, 1754, 90  # px
KINDS = ("ruled", "rules across", "zebra")
SIZES = (20, 32)  # px of an em, the least and the most
MONTHS = "January February March April May June July August September October November December".split()
BLACK, WHITE = (0, 0, 0), (255, 255, 255)
HEADS: dict[str, tuple[Colour | None, Colour]] = {  # the field behind the head, and its print
    "plain head": (None, BLACK),
    "light head": ((225, 228, 235), BLACK),
    "blue head": ((40, 60, 110), WHITE),
    "dark head": ((50, 50, 50), WHITE),
}


def look_of(seed: int) -> tuple[str, str]:
    """The kind and the head of the table of ``seed``: twelve seeds have each pair once."""
    return KINDS[seed % len(KINDS)], list(HEADS)[seed // len(KINDS) % len(HEADS)]


def draw_table_page(seed: int, split: str) -> Page:
    """The page of ``seed`` with words of ``split``. The table's block, the second, has the truth in ``cells``."""
    rng = random.Random(f"simple-tables-{split}-{seed}")
    vocabulary = [word for word in words(split) if "'" not in word and len(word) < 11]
    family = rng.choice(sorted({face.name for face in CORE}))
    body, bold = (next(face for face in CORE if face.name == family and face.bold == heavy) for heavy in (False, True))
    head = bold if rng.random() < 0.8 else body
    page = Page(Image.new("RGB", (WIDTH, HEIGHT), "white"), [])
    title = " ".join(rng.choice(vocabulary) for _ in range(4)).capitalize()
    top = rng.randint(MARGIN, 400)
    set_lines(page, "text", [(title, 0.0)], body, 28, MARGIN, top, WIDTH - 2 * MARGIN, 40, BLACK)
    size = rng.randint(*SIZES)
    cells = _cells(rng, vocabulary, rng.randint(3, 10), rng.randint(2, 8))
    while _natural(cells, body, head, size) > WIDTH - 2 * MARGIN:
        if size > SIZES[0]:
            size -= 1
        else:
            cells = [row[:-1] for row in cells]
    table = _set_table(page, rng, look_of(seed), cells, (body, head), size, top + 90)
    _set_paragraphs(page, rng, vocabulary, body, (table.bbox[3] if table else top) + 60)
    return page


def _set_paragraphs(page: Page, rng: random.Random, vocabulary: list[str], body: Face, top: int) -> None:
    """Text down to the foot of the page."""
    width = WIDTH - 2 * MARGIN
    while top < HEIGHT - 300:
        source = iter(lambda: rng.choice(vocabulary).lower(), None)
        lines = [(line, 0.0) for line in wrap(source, body, 24, width, rng.randint(2, 6))]
        set_lines(page, "text", lines, body, 24, MARGIN, top, width, 34, BLACK)
        top += 34 * len(lines) + 30


def _cells(rng: random.Random, vocabulary: list[str], rows: int, columns: int) -> list[list[str]]:
    """A head and ``rows - 1`` rows; every column has texts of one kind."""

    def some(most: int) -> str:
        return " ".join(rng.choice(vocabulary) for _ in range(rng.randint(1, most)))

    kinds: list[Callable[[], str]] = [
        lambda: some(3).capitalize(),
        lambda: some(1),
        lambda: str(rng.randrange(10 ** rng.randint(1, 5))),
        lambda: f"{rng.uniform(0, 9999):,.2f}",
        lambda: f"${rng.uniform(0, 999):.2f}",
        lambda: f"{rng.uniform(0, 100):.1f}%",
        lambda: f"{rng.randint(1, 28)} {rng.choice(MONTHS)} {rng.randint(1990, 2030)}",
        lambda: f"{rng.randint(1990, 2030)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
        lambda: f"{rng.choice('ABCDEFGHKLMNPRSTUVWXYZ')}{rng.choice('ABCDEHKLMNPRST')}-{rng.randrange(10000):04d}",
    ]
    chosen = [kinds[0], *(rng.choice(kinds) for _ in range(columns - 1))]
    head = [some(2 if columns < 6 else 1).capitalize() for _ in range(columns)]
    body = [
        ["" if column and rng.random() < 0.04 else kind() for column, kind in enumerate(chosen)]
        for _ in range(rows - 1)
    ]
    return [head, *body]


def _widths(cells: list[list[str]], body: Face, head: Face, size: int) -> list[float]:
    """Of the columns' widest texts, px."""
    return [
        max(text_width(head if row == 0 else body, size, text) for row, text in enumerate(column))
        for column in zip(*cells)
    ]


def _natural(cells: list[list[str]], body: Face, head: Face, size: int) -> float:
    """The least width of the table, px: an em between two columns."""
    return sum(_widths(cells, body, head, size)) + size * len(cells[0])


def _set_table(
    page: Page,
    rng: random.Random,
    look: tuple[str, str],
    cells: list[list[str]],
    faces: tuple[Face, Face],
    size: int,
    top: int,
) -> Block | None:
    kind = look[0]
    widths = _widths(cells, *faces, size)
    spare = WIDTH - 2 * MARGIN - sum(widths) - size * len(widths)
    more = rng.choice((0.0, 0.5, 1.0)) * spare / len(widths)
    places = [float(MARGIN)]
    for width in widths:
        places.append(places[-1] + width + size + more)
    edges = [round(place) for place in places]
    pitch = round(size * rng.uniform(1.5, 2.4))
    bottom = top + pitch * len(cells)
    right = {column for column in range(1, len(widths)) if cells[1][column][-1:].isdigit() and rng.random() < 0.7}
    field, head_ink = HEADS[look[1]]
    stripe = rng.choice(((242, 243, 246), (228, 236, 246), (224, 224, 224)))
    rule = rng.choice(((0, 0, 0), (0, 0, 0), (120, 120, 120), (190, 190, 190)))
    thick = rng.choice((1, 1, 2))
    every_row = kind == "ruled" or (kind == "rules across" and rng.random() < 0.6)

    def paint() -> None:
        draw = ImageDraw.Draw(page.image)
        if field:
            draw.rectangle((edges[0], top, edges[-1], top + pitch), fill=field)
        if kind == "zebra":
            for row in range(2, len(cells), 2):
                draw.rectangle((edges[0], top + row * pitch, edges[-1], top + (row + 1) * pitch - 1), fill=stripe)
        for row, texts in enumerate(cells):
            face = faces[1] if row == 0 else faces[0]
            baseline = top + row * pitch + (pitch + face.x_height * size) / 2
            for column, text in enumerate(texts):
                x = edges[column] + size / 2
                if column in right:
                    x = edges[column + 1] - size / 2 - text_width(face, size, text)
                if text:
                    draw_line(page.image, face, size, text, x, baseline, head_ink if row == 0 else BLACK)
        if kind != "zebra":
            for row in range(len(cells) + 1):
                if every_row or row in (0, 1, len(cells)):
                    draw.line((edges[0], top + row * pitch, edges[-1], top + row * pitch), fill=rule, width=thick)
        if kind == "ruled":
            for edge in edges:
                draw.line((edge, top, edge, bottom), fill=rule, width=thick)

    return page.add_ink("table", (MARGIN - 4, top - 4, edges[-1] + 5, bottom + 5), paint, cells=cells)
