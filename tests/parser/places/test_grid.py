# SPDX-License-Identifier: Apache-2.0
"""The grid of a table's picture: ruled, shaded or by white alone, askew, with merged cells; and what is no table."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from PIL import Image, ImageDraw

from docparser.places.box import Grid
from docparser.places.grids import grid
from docparser.small_print import cells
from tests.support.fonts import font

EDGES, PITCH, SIZE = [10, 260, 380, 500, 690], 44, 20  # px
ROWS = [
    ["Item", "Pages", "Price", "Date"],
    ["Field glass", "12", "18.50", "12 March 2025"],
    ["Spine repair", "7", "206.20", "1 May 2024"],
    ["Archive box, grey", "1,204", "9.75", "30 June 2025"],
    ["Type", "60", "0.85", "2 July 2023"],
]


@dataclasses.dataclass(frozen=True)
class Look:
    """Which rules a table has, and what is shaded."""

    down: bool = False
    across: str = ""  # "all", "head" (above and below it, and at the end) or none
    stripes: int = 255  # grey level of every other row
    head: int = 255  # grey level behind the head, whose letters are white where it is dark


LOOKS = {
    "ruled": Look(down=True, across="all"),
    "ruled, dark head": Look(down=True, across="all", head=50),
    "columns and head ruled": Look(down=True, across="head"),
    "rules across": Look(across="all"),
    "book": Look(across="head"),
    "zebra": Look(stripes=225),
    "zebra, dark head": Look(stripes=235, head=60),
    "white alone": Look(),
}


def drawn(look: Look, rows: list[list[str]], spans: tuple[tuple[int, int], ...] = ()) -> Image.Image:
    """``spans`` (row, columns): the first cell of a row is so wide; its text stands in its middle."""
    face = font(SIZE)
    image = Image.new("RGB", (EDGES[-1] + 10, 12 + len(rows) * PITCH + 12), "white")
    draw = ImageDraw.Draw(image)
    wide = dict(spans)
    for number, row in enumerate(rows):
        top = 12 + number * PITCH
        paper = look.head if number == 0 else look.stripes if number % 2 == 0 else 255
        draw.rectangle((EDGES[0], top, EDGES[-1], top + PITCH - 1), fill=(paper,) * 3)
        ink = "white" if paper < 128 else "black"
        for column, text in enumerate(row):
            place: tuple[float, float] = (EDGES[column] + 10, top + 29)
            if column == 0 and number in wide:
                place = ((EDGES[0] + EDGES[wide[number]] - draw.textlength(text, face)) / 2, top + 29)
            draw.text(place, text, fill=ink, font=face, anchor="ls")
        for column, edge in enumerate(EDGES):
            if look.down and not 0 < column < wide.get(number, 0):
                draw.line((edge, top, edge, top + PITCH), fill="black")
    for number in range(len(rows) + 1):
        if look.across == "all" or (look.across == "head" and number in (0, 1, len(rows))):
            draw.line((EDGES[0], 12 + number * PITCH, EDGES[-1], 12 + number * PITCH), fill="black")
    return image


def found(image: Image.Image) -> Grid:
    grid_ = grid.find(np.asarray(image.convert("L")))
    assert grid_ is not None, "no grid"
    return grid_


def places(found: Grid) -> list[tuple[int, int, int, int, int]]:
    """Of each cell its row and column, its rows and columns, and its lines of print."""
    return [(cell.row, cell.column, cell.rows, cell.columns, len(cell.lines)) for cell in found.cells]


def simple(rows: list[list[str]]) -> list[tuple[int, int, int, int, int]]:
    return [(row, column, 1, 1, bool(text)) for row, texts in enumerate(rows) for column, text in enumerate(texts)]


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_every_cell_is_found_with_its_line_of_print(look: Look):
    image = drawn(look, ROWS)
    table = found(image)
    assert (table.rows, table.columns) == (5, 4) and places(table) == simple(ROWS)
    assert table.line == pytest.approx(SIZE, rel=0.2)
    for cell in table.cells:
        (line,) = cell.lines
        text = ROWS[cell.row][cell.column]
        left = EDGES[cell.column] + 10
        width = font(SIZE).getlength(text)
        assert abs(line.left - left) <= 3 and abs(line.right - left - width) <= 4, text
        top = 12 + cell.row * PITCH
        assert top <= line.top < line.bottom <= top + PITCH
        assert cell.area.left <= line.left and line.right <= cell.area.right


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_cells_may_be_empty(look: Look):
    rows = [list(row) for row in ROWS]
    rows[0][0] = rows[2][1] = rows[3][3] = ""
    assert places(found(drawn(look, rows))) == simple(rows)


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_the_edge_of_the_picture_may_cut_the_margin_off(look: Look):
    image = drawn(look, ROWS)
    assert places(found(image.crop((12, 13, image.width - 12, image.height - 13)))) == simple(ROWS)
    wider = Image.new("RGB", (image.width + 60, image.height + 40), "white")
    wider.paste(image, (30, 20))
    assert places(found(wider)) == simple(ROWS)


@pytest.mark.parametrize("degrees", [-1.2, -0.35, 0.35, 1.2])
@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_table_that_was_scanned_askew_is_straightened(look: Look, degrees: float):
    askew = drawn(look, ROWS).rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor="white")
    assert places(found(cells.straightened(askew))) == simple(ROWS)


@pytest.mark.parametrize("name", ["ruled", "rules across", "zebra", "white alone"])
def test_a_title_takes_all_columns(name: str):
    rows = [["Prices of the workshop in the second year", "", "", ""], *ROWS]
    merged = [(0, 0, 1, 4, 1)] + [(row + 1, *rest) for row, *rest in simple(ROWS)]
    assert places(found(drawn(LOOKS[name], rows, spans=((0, 4),)))) == merged


def test_a_total_takes_the_columns_that_no_rule_parts():
    rows = [*ROWS, ["Total", "", "", "979.76"]]
    table = found(drawn(LOOKS["ruled"], rows, spans=((5, 3),)))
    assert places(table)[-2:] == [(5, 0, 1, 3, 1), (5, 3, 1, 1, 1)]


def test_a_cell_of_two_rows():
    image = drawn(LOOKS["ruled"], [["Group", *ROWS[0][1:]], ["", *ROWS[1][1:]], ["", *ROWS[2][1:]], ROWS[3]])
    draw = ImageDraw.Draw(image)
    between = 12 + 2 * PITCH
    draw.line((EDGES[0] + 1, between, EDGES[1] - 1, between), fill="white")
    draw.text((30, between + 7), "Both of them", fill="black", font=font(SIZE), anchor="ls")
    table = found(image)
    assert (table.rows, table.columns) == (4, 4)
    assert [place for place in places(table) if place[1] == 0] == [(0, 0, 1, 1, 1), (1, 0, 2, 1, 1), (3, 0, 1, 1, 1)]


def test_a_ruled_cell_may_have_several_lines():
    image = drawn(LOOKS["ruled"], [row if number != 2 else ["", *row[1:]] for number, row in enumerate(ROWS)])
    taller = Image.new("RGB", (image.width, image.height + 24), "white")
    cut = 12 + 2 * PITCH + 22
    taller.paste(image.crop((0, 0, image.width, cut)), (0, 0))
    for extra in range(24):  # the row of the empty cell becomes 24 px higher
        taller.paste(image.crop((0, cut, image.width, cut + 1)), (0, cut + extra))
    taller.paste(image.crop((0, cut, image.width, image.height)), (0, cut + 24))
    draw, face = ImageDraw.Draw(taller), font(SIZE)
    for line, text in enumerate(("Repair of spines,", "glue and paper")):
        draw.text((20, 12 + 2 * PITCH + 26 + 28 * line), text, fill="black", font=face, anchor="ls")
    table = found(taller)
    assert (table.rows, table.columns) == (5, 4)
    assert next(len(cell.lines) for cell in table.cells if (cell.row, cell.column) == (2, 0)) == 2


def test_one_column_is_no_table():
    face = font(SIZE)
    for ruled in (False, True):
        image = Image.new("L", (500, 300), 255)
        draw = ImageDraw.Draw(image)
        for number in range(6):
            draw.text((20, 30 + 46 * number), "the quick brown fox jumps"[: 8 + 3 * number], fill=0, font=face)
            if ruled:
                draw.rectangle((5, 18 + 46 * number, 490, 18 + 46 * (number + 1)), outline=0)
        assert grid.find(np.asarray(image)) is None


def test_a_paragraph_is_no_table():
    rng = random.Random(2)
    image = Image.new("L", (700, 400), 255)
    draw, face = ImageDraw.Draw(image), font(SIZE)
    words = "the quick brown fox jumps over a lazy dog and they gypsy again".split()
    for number in range(11):
        draw.text((10, 10 + 34 * number), " ".join(rng.choices(words, k=10)), fill=0, font=face)
    assert grid.find(np.asarray(image)) is None


def test_noise_pictures_and_nothing_are_no_tables():
    rng = np.random.default_rng(5)
    images = [
        rng.integers(0, 256, (400, 600), np.uint8),
        np.tile(np.arange(256, dtype=np.uint8), (300, 3)),
        np.full((300, 500), 255, np.uint8),
        np.zeros((1, 1), np.uint8),
        np.zeros((40, 400), np.uint8),
    ]
    assert [grid.find(image) for image in images] == [None] * len(images)


def test_more_cells_than_a_page_has_are_no_table():
    image = Image.new("L", (1600, 1600), 255)
    draw = ImageDraw.Draw(image)
    face = font(14)
    for place in range(0, 1600, 40):
        draw.line((place, 0, place, 1599), fill=0)
        draw.line((0, place, 1599, place), fill=0)
        for other in range(0, 1600, 40):
            draw.text((place + 10, other + 28), "ab", fill=0, font=face, anchor="ls")
    assert grid.find(np.asarray(image)) is None
    part = grid.find(np.asarray(image)[:400, :400])
    assert part is not None and (part.rows, part.columns) == (10, 10)
