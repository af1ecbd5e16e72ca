# SPDX-License-Identifier: Apache-2.0
"""Rows of a table are its head where the print sets them off, and nowhere else."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from docparser.page.table_heads import head_rows
from tests.support.fonts import LIBERATION, font

ROWS = [
    ["Item", "Price", "Amount"],
    ["Cloth", "18.50", "444.00"],
    ["Spine", "6.20", "229.40"],
    ["Box", "9.75", "117.00"],
]
HIGH, WIDE, EDGE = 44, 220, 10  # px: of a row, of a column, around the table
PALE, DARK, WHITE = (226, 230, 238), (28, 60, 104), (255, 255, 255)


def bold(size: int) -> ImageFont.FreeTypeFont:
    path = LIBERATION / "LiberationSerif-Bold.ttf"
    if not path.is_file():
        pytest.skip("needs fonts-liberation (apt-get install)")
    return ImageFont.truetype(str(path), size)


def table(
    rows: list[list[str]] = ROWS,
    papers: tuple[tuple[int, int, int], ...] = (),
    rules: tuple[int, ...] = (),
    columns: bool = False,
    face: ImageFont.FreeTypeFont | None = None,
    others: ImageFont.FreeTypeFont | None = None,
    quality: int = 0,
) -> tuple[np.ndarray, str]:
    """A table and what the VLM reads on it. ``papers`` of the first rows; ``rules`` above rows of these numbers;
    ``columns``: rules between columns; ``face`` of the first row, ``others`` of the others; ``quality`` of a JPEG, 0:
    none."""
    width, height = WIDE * len(rows[0]) + 2 * EDGE, HIGH * len(rows) + 2 * EDGE
    image = Image.new("RGB", (width, height), WHITE)
    draw = ImageDraw.Draw(image)
    for number, row in enumerate(rows):
        top = EDGE + number * HIGH
        paper = papers[number] if number < len(papers) else WHITE
        draw.rectangle((EDGE, top, width - EDGE, top + HIGH - 1), fill=paper)
        ink = WHITE if paper == DARK else (20, 20, 20)
        for column, text in enumerate(row):
            used = (face if number == 0 else others) or font(22)
            draw.text((EDGE + 6 + column * WIDE, top + HIGH / 2), text, ink, used, "lm")
    for number in rules:
        draw.line((EDGE, EDGE + number * HIGH, width - EDGE, EDGE + number * HIGH), "black", 2)
    for column in range(len(rows[0]) + 1) if columns else ():
        draw.line((EDGE + column * WIDE, EDGE, EDGE + column * WIDE, height - EDGE), "black", 2)
    if quality:
        with io.BytesIO() as buffer:
            image.save(buffer, "JPEG", quality=quality)
            image = Image.open(buffer).convert("RGB")
    said = "<nl>".join("".join(f"<fcel>{text}" for text in row) for row in rows)
    return np.asarray(image), said + "<nl>"


ALL = tuple(range(len(ROWS) + 1))


@pytest.mark.parametrize("quality", [0, 60])
def test_a_row_on_another_paper_is_a_head(quality: int):
    assert head_rows(*table(papers=(PALE,), quality=quality)) == 1
    assert head_rows(*table(papers=(DARK,), rules=ALL, columns=True, quality=quality)) == 1
    assert head_rows(*table(papers=(PALE, PALE), quality=quality)) == 2


@pytest.mark.parametrize("quality", [0, 60])
def test_a_row_above_the_only_rule_is_a_head(quality: int):
    assert head_rows(*table(rules=(0, 1, 4), quality=quality)) == 1
    assert head_rows(*table(rules=(1,), quality=quality)) == 1


def test_a_bold_row_is_a_head():
    serif = font(24, "serif")
    assert head_rows(*table(face=bold(24), others=serif, rules=ALL, columns=True)) == 1
    assert head_rows(*table(face=bold(24), others=serif)) == 1


def test_no_head_is_invented():
    serif = font(24, "serif")
    assert head_rows(*table()) == 0
    assert head_rows(*table(face=serif, others=serif)) == 0
    assert head_rows(*table(rules=ALL, columns=True)) == 0
    assert head_rows(*table(papers=(PALE, WHITE, PALE, WHITE))) == 0, "every other row"
    assert head_rows(*table(papers=(PALE,) * 4)) == 0, "all of it"
    assert head_rows(*table(rules=(0, 3, 4))) == 0, "a sum below a rule"
    assert head_rows(*table(face=bold(24), others=bold(24))) == 0, "all of it is bold"
    assert head_rows(*table(ROWS[:1], papers=(PALE,))) == 0, "nothing stands below it"


def test_cells_of_several_lines_are_one_row():
    """The picture has five lines and the table four rows: the head's cells have two lines."""
    rows = [["Number of", "Price", ""], ["pieces", "each", "Amount"], *ROWS[1:]]
    picture, _ = table(rows, papers=(PALE, PALE))
    _, said = table()
    assert head_rows(picture, said) == 1
    spanning = said.replace("<fcel>Price<fcel>Amount", "<fcel>Price<lcel>")
    assert head_rows(picture, spanning) == 2, "a cell above several says that another row of the head follows"


@pytest.mark.parametrize("size", [(1, 1), (3, 400), (400, 3)])
def test_pictures_without_print(size: tuple[int, int]):
    assert head_rows(np.full((*size, 3), 255, np.uint8), "<fcel>a<nl><fcel>b<nl>") == 0


def test_what_is_no_table():
    picture, _ = table(papers=(PALE,))
    assert head_rows(picture, "") == head_rows(picture, "words") == 0
