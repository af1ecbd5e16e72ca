# SPDX-License-Identifier: Apache-2.0
"""Places of blocks as an answer says them: by the page's own words, by ink, of the cells of tables; and where there are
none."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from PIL import Image, ImageDraw

from docparser.contract.answers import Block, BlockPlaces
from docparser.contract.schemas import Places
from docparser.own_text.lines import Line as OwnLine
from docparser.own_text.lines import Word
from docparser.page.places import Ground, ground_of_lines, ground_of_table, ground_of_words, places_of
from docparser.places.box import Box
from docparser.places.ink import lines_in
from tests.support.fonts import font

HIGH, WIDE = 20, 10  # px of a line, and of a letter


def own(*lines: str) -> Ground:
    """What a page says: letters of one width."""
    found = []
    for number, line in enumerate(lines):
        words, left = [], 0
        for word in line.split():
            words.append(Word(word, Box(left, HIGH * number, left + WIDE * len(word), HIGH * (number + 1))))
            left += WIDE * (len(word) + 1)
        found.append(OwnLine(line, Box(0, 0, 0, 0), tuple(words)))
    return ground_of_words(found)


def said(content: str, ground: Ground | None, kind: Places = "words", label: str = "text") -> BlockPlaces | None:
    block = {"block_id": 7, "block_label": label, "block_content": content, "block_bbox": [0, 0, 0, 0]}
    found = places_of([cast(Block, block)], [ground], kind)
    assert all(one["block_id"] == 7 for one in found)
    return found[0] if found else None


def words(content: str, ground: Ground | None, kind: Places = "words") -> list[tuple[str, list[float]]]:
    found = said(content, ground, kind)
    listed: list[Any] = [] if found is None else found["words"] if kind == "words" else found["lines"]
    assert all(content[one["start"] : one["end"]] == one["text"] for one in listed)
    return [(one["text"], one["bbox"]) for one in listed]


def at(column: int, length: int, line: int = 0) -> list[float]:
    return [WIDE * column, HIGH * line, WIDE * (column + length), HIGH * (line + 1)]


def test_words_stand_where_the_page_says_them():
    assert words("The well\nis dry.", own("The well", "is dry.")) == [
        ("The", at(0, 3)), ("well", at(4, 4)), ("is", at(0, 2, 1)), ("dry.", at(3, 4, 1))
    ]  # fmt: skip
    assert words("The well is dry.", own("The well", "is dry."), "lines") == [
        ("The well", at(0, 8)),
        ("is dry.", at(0, 7, 1)),
    ]


def test_a_word_on_two_lines_is_two_places():
    found = words("It is remembered.", own("It is re-", "membered."))
    assert [word for word, _ in found] == ["It", "is", "re", "membered."]
    assert found[3][1] == at(0, 9, 1)
    left, top, right, bottom = found[2][1]
    assert (left, top, bottom) == (60, 0, 20) and 70 < right < 90, "a part of the word with its hyphen"


def test_what_the_vlm_misread_has_the_place_of_what_it_misread():
    found = words("The wall is drv, so", own("The well", "is dry. Go"))
    assert found[:3] == [("The", at(0, 3)), ("wall", at(4, 4)), ("is", at(0, 2, 1))]


def test_words_that_the_page_does_not_say_have_no_place():
    assert [word for word, _ in words("The deep well", own("The well"))] == ["The", "well"]
    assert said("Nothing of this", own("ABGX")) is None


def test_marks_and_formulas_are_no_words():
    found = words("## The **well** holds $x^2 + y_1$ of <sup>3</sup> feet", own("The well holds x2+y1 of 3 feet"))
    assert [word for word, _ in found] == ["The", "well", "holds", "of", "3", "feet"]


def test_each_ideograph_is_a_word_and_syllables_of_hangul_are_not():
    assert words("检索增强", own("检索增强")) == [(sign, at(place, 1)) for place, sign in enumerate("检索增强")]
    assert words("우물은 깊다", own("우물은 깊다")) == [("우물은", at(0, 3)), ("깊다", at(4, 2))]


def test_width_and_ligatures_make_no_difference():
    assert [word for word, _ in words("final Ａ１", own("ﬁnal A1"))] == ["final", "Ａ", "１"]


def test_places_by_ink_say_so():
    page = Image.new("L", (400, 60), 255)
    ImageDraw.Draw(page).text((20, 10), "Four words of print", font=font(24), fill=0)
    ground = ground_of_lines(lines_in(page, Box(0, 0, 400, 60), 1.0))
    found = said("Four words of print", ground)
    assert found is not None and found["source"] == "ink"
    assert [one["text"] for one in found["words"]] == ["Four", "words", "of", "print"]
    lefts = [one["bbox"][0] for one in found["words"]]
    assert lefts == sorted(lefts) and lefts[0] >= 20
    whole = said("Four words of print", ground, "lines")
    assert whole is not None and [one["text"] for one in whole["lines"]] == ["Four words of print"]


COLUMNS, ROWS = (20, 160, 300, 440), (20, 60, 100, 140)


def table_ground() -> Ground | None:
    picture = Image.new("L", (460, 160), 255)
    draw = ImageDraw.Draw(picture)
    for left in COLUMNS:
        draw.line((left, ROWS[0], left, ROWS[-1]), fill=0)
    for top in ROWS:
        draw.line((COLUMNS[0], top, COLUMNS[-1], top), fill=0)
    for row in ROWS[:-1]:
        for column in COLUMNS[:-1]:
            draw.text((column + 12, row + 8), "12.5", font=font(20), fill=0)
    page = np.full((500, 600), 255, np.uint8)
    page[100:260, 50:510] = np.asarray(picture)
    return ground_of_table(page, [50, 100, 510, 260])


def rows(*texts: str) -> str:
    return "<table>" + "".join(f"<tr>{text}</tr>" for text in texts) + "</table>"


ROW = "<td>e</td><td>f</td><td>g</td>"
SPANS = ("<td rowspan=2>a</td><td colspan=2>b</td>", "<td>c</td><td>d</td>", ROW)


@pytest.mark.parametrize("kind", ["cells", "words", "lines"])
def test_cells_of_a_table_with_spans(kind: Places):
    found = said(rows(*SPANS), table_ground(), kind, "table")
    assert found is not None and found["source"] == "ink"
    cells = {cell["text"]: cell for cell in found["cells"]}
    # Row, column, and how many of them each covers.
    places = {"a": (0, 0, 2, 1), "b": (0, 1, 1, 2), "c": (1, 1, 1, 1), "d": (1, 2, 1, 1), "g": (2, 2, 1, 1)}
    for text, (row, column, high, wide) in places.items():
        cell = cells[text]
        assert (cell["row"], cell["column"], cell["rowSpan"], cell["columnSpan"]) == (row, column, high, wide)
        edges = [50 + COLUMNS[column], 100 + ROWS[row], 50 + COLUMNS[column + wide], 100 + ROWS[row + high]]
        assert np.abs(np.subtract(cell["bbox"], edges)).max() <= 3


def test_a_table_with_other_rows_than_its_print_has_no_cells():
    assert said(rows(ROW, ROW), table_ground(), "cells", "table") is None
    assert said(rows(ROW, ROW, ROW) * 2, table_ground(), "cells", "table") is None
    assert said("no table", table_ground(), "cells", "table") is None


def test_nothing_is_said_where_nothing_was_found():
    assert said("words", None) is None is said("", own("words"))
    assert said("The well", own("The well"), "cells") is None
