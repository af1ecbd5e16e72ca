# SPDX-License-Identifier: Apache-2.0
"""What a page's picture, blocks and texts say of it. Pages are printed here, line by line."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw

from docparser.page.notes import page_notes

A4 = 1190, 1684
READ = ["The water of the valley was tested at nineteen places."]
Box = tuple[int, int, int, int]


def line() -> Image.Image:
    strip = Image.new("L", (1200, 30), 255)
    ImageDraw.Draw(strip).text((0, 0), "Samples were taken each month and analysed for nitrate " * 3, 0, font_size=22)
    return strip


PRINT = line()


def printed(*places: Box, size: tuple[int, int] = A4) -> Image.Image:
    """White paper with lines of 22 pixels from left to right in each place."""
    page = Image.new("L", size, 255)
    for left, top, right, bottom in places:
        for row in range(top, bottom - 21, 30):
            page.paste(PRINT.crop((0, 0, right - left, 30)), (left, row))
    return page


def kinds(
    page: Image.Image, boxes: list[Box] | None = None, texts: list[str] = READ, squeezed: bool = True
) -> list[str]:
    pixels = np.asarray(page.convert("RGB"))
    return [note["kind"] for note in page_notes(pixels, boxes, texts, squeezed=squeezed)]


WHITE, LINE = Image.new("L", A4, 250), printed((300, 800, 700, 822))


@pytest.mark.parametrize(
    ("page", "texts", "squeezed", "said"),
    [
        (printed((100, 100, 500, 700)), [], True, []),
        (printed((20, 20, 180, 700), size=(200, 801)), READ, True, ["long"]),
        (printed((20, 20, 180, 700), size=(200, 801)), READ, False, []),
        (printed((20, 20, 700, 180), size=(801, 200)), READ, True, ["long"]),
        (WHITE, [], True, ["blank"]),
        (WHITE, [" \n"], True, ["blank"]),
        (Image.new("L", A4, 20), [], True, ["dark"]),
        (WHITE, READ, True, []),
        (LINE, [], True, []),
    ],
)
def test_the_shape_and_the_tone_of_a_page(page, texts, squeezed, said):
    assert kinds(page, None, texts, squeezed) == said


@pytest.mark.parametrize("size", [(1, 250), (250, 1)])
def test_a_gradient_of_one_row_or_column_is_a_page(size):
    page = Image.frombytes("L", size, bytes(range(250)))
    assert kinds(page, [], []) == kinds(page, None) == ["long"]


TEXT, TABLE = (100, 100, 1090, 900), (100, 1000, 1090, 1500)


@pytest.mark.parametrize(
    ("boxes", "said"),
    [
        ([TEXT, TABLE], []),
        ([(110, 110, 1070, 885), (110, 1010, 1070, 1480)], []),  # boxes are never exact
        ([TEXT], ["unread"]),
        ([TEXT, (100, 1000, 1090, 1320)], ["unread"]),  # six rows of sixteen
        ([TEXT, (100, 1000, 1090, 1470)], []),  # less than a line
        ([], ["unread"]),
    ],
)
def test_print_that_lies_in_no_block_is_named(boxes, said):
    assert kinds(printed(TEXT, TABLE), boxes) == said


def test_rules_marks_and_smooth_pictures_are_no_print():
    page = printed(TEXT)
    draw = ImageDraw.Draw(page)
    for number in range(40):
        draw.text((1120, 100 + 20 * number), str(number), fill=0, font_size=18)  # numbers of lines
    draw.rectangle((100, 1000, 1090, 1500), outline=0, width=3)
    draw.line((595, 1000, 595, 1500), fill=0, width=2)
    draw.ellipse((700, 1100, 1000, 1400), fill=90)
    assert kinds(page, [TEXT]) == []


def test_the_largest_place_is_named_in_pixels_of_the_page():
    pixels = np.asarray(printed(TEXT, (100, 1000, 800, 1090), (100, 1300, 1090, 1500)).convert("RGB"))
    (note,) = page_notes(pixels, [TEXT], READ, squeezed=True)
    named = [int(side) for side in note["message"].partition("[")[2].partition("]")[0].split(",")]
    assert np.abs(np.array(named) - (100, 1300, 1090, 1500)).max() < 40, note


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5#5%$%E%S5E5 fVf sri=m C>rc +&c$ fcwwxay 3 " * 6, ["nonsense"]),
        ("AewojoH ueJ3J9q 'jgsXu 6eq au9q 3ejpo3 o X|deu s/du3xa3 J9qpe gZ[a " * 4, ["nonsense"]),  # upside down
        ("<fcel>$ 40<fcel>12 %<fcel>B12<fcel>1,234.50<nl>Total * of all = $ 1,900 in the H2O lab" * 9, []),
        ("for (int i = 0; i < count; i++) total += sums[i] * weight; return total / (uint8_t) count; " * 4, []),
        (r"so \(a^{2}b3c + b^{2}c = c4d^{2}e\) holds for each of the samples that were taken that year " * 4, []),
        ("第3年的采样结果：水质良好！！2024年5月1日谁采的样？全部由12名志愿者完成。 " * 30, []),
        ("5#5%$%E%SES", []),  # a stamp
    ],
)
def test_a_text_that_is_none_is_named(text, said):
    assert kinds(printed(TEXT), [TEXT], [text]) == said


@pytest.mark.parametrize(("turned", "said"), [(0, []), (90, ["sideways"]), (180, []), (270, ["sideways"])])
def test_a_page_that_stands_on_its_side_is_named(turned, said):
    page = printed((100, 100, 560, 1500), (630, 100, 1090, 900))
    ImageDraw.Draw(page).rectangle((630, 1000, 1090, 1500), outline=0, fill=180)
    assert kinds(page.rotate(turned, expand=True), None) == said


def test_a_table_with_rules_and_a_few_words_down_its_side_stand_upright():
    page = printed(*[(100 + 250 * column, 100, 300 + 250 * column, 1500) for column in range(4)])
    draw = ImageDraw.Draw(page)
    for column in range(5):
        draw.line((80 + 250 * column, 80, 80 + 250 * column, 1520), fill=0, width=3)
    page.paste(printed((0, 0, 400, 30), size=(400, 34)).rotate(90, expand=True), (20, 500))
    assert kinds(page) == []
