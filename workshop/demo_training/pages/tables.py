# SPDX-License-Identifier: Apache-2.0
"""Tables: ruled, half-ruled or plain grids of cells."""

from __future__ import annotations

import random
from dataclasses import dataclass

from PIL import ImageDraw

from ..drawing.block import Colour, any_colour, draw_line, text_width
from ..drawing.fonts import Face
from ..drawing.words import TextSource
from .page import Block, Page
from .style import Style


@dataclass(frozen=True)
class Rules:
    """Which lines a table has, and whether its head or every other row is shaded."""

    outer: bool
    rows: bool
    columns: bool
    head: bool
    shade_head: bool
    stripes: bool


RULES = {
    "grid": Rules(True, True, True, True, False, False),
    "shaded grid": Rules(True, True, True, True, True, False),
    "rows": Rules(False, True, False, True, False, False),
    "shaded rows": Rules(False, True, False, True, True, False),
    "book": Rules(False, False, False, True, False, False),
    "striped": Rules(False, False, False, True, True, True),
    "plain": Rules(False, False, False, False, False, False),
}


def set_table(
    page: Page,
    cells: list[list[str]],
    faces: tuple[Face, Face],
    size: int,
    left: int,
    top: int,
    width: int,
    rules: Rules,
    ink: Colour,
    *,
    row_height: int | None = None,
    shares: list[float] | None = None,
    right_columns: frozenset[int] = frozenset(),
    accent: Colour = (225, 228, 235),
    head_ink: Colour | None = None,
    stripe: Colour = (242, 243, 246),
    rule: Colour | None = None,
) -> Block | None:
    """Draw ``cells`` (rows of equal length; the first is the head) in ``width`` px from (left, top).

    ``faces`` are (body, head); ``shares`` are the columns' relative widths; text that is too wide is an error
    of the caller's. ``head_ink`` and ``rule`` colour the head's print and the lines, else ``ink``. Returns the block,
    bounded by text and rules.
    """
    rows, columns = len(cells), len(cells[0])
    row_height = row_height or round(size * 1.9)
    total = sum(shares or [1] * columns)
    places = [float(left)]
    for share in shares or [1] * columns:
        places.append(places[-1] + width * share / total)
    edges = [round(place) for place in places]
    bottom = top + rows * row_height
    pad = max(5, size // 2)

    def paint() -> None:
        draw = ImageDraw.Draw(page.image)
        if rules.shade_head:
            draw.rectangle((edges[0], top, edges[-1], top + row_height), fill=accent)
        if rules.stripes:
            for row in range(2, rows, 2):
                box = (edges[0], top + row * row_height, edges[-1], top + (row + 1) * row_height)
                draw.rectangle(box, fill=stripe)
        for row, line in enumerate(cells):
            face = faces[1] if row == 0 else faces[0]
            # Centres the x-height band; ascenders and descenders balance around it.
            baseline = top + row * row_height + (row_height + face.x_height * size) / 2
            for column, text in enumerate(line):
                x: float = edges[column] + pad
                if column in right_columns:
                    x = edges[column + 1] - pad - text_width(face, size, text)
                if text:
                    draw_line(page.image, face, size, text, x, baseline, (head_ink or ink) if row == 0 else ink)
        if rules.outer:
            draw.rectangle((edges[0], top, edges[-1], bottom), outline=rule or ink, width=2)
        if rules.rows:
            for row in range(rows + 1):
                y = top + row * row_height
                draw.line((edges[0], y, edges[-1], y), fill=rule or ink, width=1)
        if rules.columns:
            for edge in edges:
                draw.line((edge, top, edge, bottom), fill=rule or ink, width=1)
        if rules.head and not rules.outer:
            for y in (top, top + row_height, bottom):
                draw.line((edges[0], y, edges[-1], y), fill=rule or ink, width=2)

    return page.add_ink("table", (left - 4, top - 4, left + width + 5, bottom + 5), paint, cells=cells)


def random_table(
    page: Page, style: Style, source: TextSource, rng: random.Random, left: int, top: int, width: int, room: int
) -> Block | None:
    """A table of random words and numbers in ``width`` px and at most ``room`` px high; None where it has no room."""
    size = style.fit(style.body, max(16, round(style.size * rng.uniform(0.75, 1.0))))
    row_height = round(size * rng.uniform(1.5, 2.3))
    columns = min(rng.randint(2, 8), int(width / (5 * size)))
    rows = min(rng.randint(3, 12), room // row_height)
    if columns < 2 or rows < 3:
        return None
    numeric = {column for column in range(1, columns) if rng.random() < 0.65}
    widest = width / columns - 2 * max(5, size // 2)

    def fit(face: Face, text: str) -> str:
        while text and text_width(face, size, text) > widest:
            text = text[:-1].rstrip()
        return text

    def value() -> str:
        return rng.choice(
            [
                str(rng.randrange(1000)),
                f"{rng.uniform(0, 999):.2f}",
                f"{rng.randrange(100)}%",
                f"{rng.randrange(99999):,}",
            ]
        )

    def words() -> str:
        return " ".join(source.word() for _ in range(rng.randint(1, 2)))

    cells = [[fit(style.heading, words().capitalize()) for _ in range(columns)]]
    for _ in range(rows - 1):
        cells.append([fit(style.body, value() if column in numeric else words()) for column in range(columns)])
    rules = RULES[rng.choice(list(RULES))]
    right = frozenset(numeric) if rng.random() < 0.5 else frozenset()
    accent: Colour = (225, 228, 235)
    head_ink = style.ink
    if rules.shade_head and rng.random() < 0.6:  # light letters on a dark head
        accent, head_ink = any_colour(rng, 10, 120), (255, 255, 255)
    grey = rng.randint(0, 200)
    return set_table(
        page,
        cells,
        (style.body, style.heading),
        size,
        left,
        top,
        width,
        rules,
        style.ink,
        row_height=row_height,
        shares=_shares(rng, cells, style, size, width),
        right_columns=right,
        accent=accent,
        head_ink=head_ink,
        stripe=any_colour(rng, 218, 246),
        rule=rng.choice((style.ink, (grey, grey, grey))),
    )


def _shares(rng: random.Random, cells: list[list[str]], style: Style, size: int, width: int) -> list[float] | None:
    """Columns as wide as their texts want, as far as these fit; None for columns of one width."""
    if rng.random() < 0.4:
        return None
    pads = 2 * max(5, size // 2)
    wanted = [
        max(text_width(style.heading if row == 0 else style.body, size, text) for row, text in enumerate(column)) + pads
        for column in zip(*cells)
    ]
    return wanted if sum(wanted) <= width else None
