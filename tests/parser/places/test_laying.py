# SPDX-License-Identifier: Apache-2.0
"""Words on the ink of their lines, drawn where the test knows; and texts that say something else than the print."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import pytest
from PIL import Image, ImageDraw

from docparser.places.atoms import atoms_of, breaks_of
from docparser.places.box import Box, around
from docparser.places.ink import Line, lines_in
from docparser.places.laying import Effort, Laid, lay
from tests.support.fonts import FACES, font

SIZE, PITCH, WIDE = 24, 36, 620  # px
LINES = (
    "The well in the yard was dug by hand, and it",
    "gave water in all but two summers. Nobody re-",
    "members who lined it with stone, for the book",
    "of the parish begins in 1740 (see page 12).",
)
TEXT = " ".join(LINES).replace("re- members", "remembers")

Places = dict[str, Box]


def drawn(lines: Sequence[str], face: str = "sans", justified: bool = True) -> tuple[Image.Image, list[list[Box]]]:
    """The page, and the ink of each word of each line."""
    page = Image.new("L", (WIDE + 80, PITCH * len(lines) + 60), 255)
    draw, letters = ImageDraw.Draw(page), font(SIZE, face)
    truth = []
    for number, line in enumerate(lines):
        words = line.split(" ")
        room = WIDE - sum(letters.getlength(word) for word in words)
        gap = room / max(1, len(words) - 1) if justified and number + 1 < len(lines) else SIZE * 0.28
        left, boxes = 40.0, []
        for word in words:
            at = (round(left), 30 + number * PITCH)
            draw.text(at, word, font=letters, fill=0)
            boxes.append(Box(*map(float, draw.textbbox(at, word, font=letters))))
            left += letters.getlength(word) + gap
        truth.append(boxes)
    return page, truth


def found(text: str, page: Image.Image, **more: bool) -> list[Laid]:
    return lay(text, lines_in(page, Box(0, 0, page.width, page.height), 1.0, **more), Effort())


@pytest.mark.parametrize(
    ("text", "hyphen", "breaks"),
    [
        ("remembers", True, True),
        ("1234567890", True, False),
        ("remembers", False, False),
        ("a/long/path/of/some/files", False, True),
    ],
)
def test_where_a_word_may_go_on_on_the_next_line(text: str, hyphen: bool, breaks: bool):
    """Numbers are not hyphenated; addresses are broken at their signs."""
    (atom,) = atoms_of(text)
    found = list(breaks_of(text, atom, hyphen))
    assert bool(found) is breaks and all(0 < at < len(text) for at, _, _ in found)


def overlap(one: Box, other: Box) -> float:
    width = min(one.right, other.right) - max(one.left, other.left)
    height = min(one.bottom, other.bottom) - max(one.top, other.top)
    both = max(0.0, width) * max(0.0, height)
    return both / (one.width * one.height + other.width * other.height - both)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("justified", [True, False])
def test_every_word_is_found_on_its_ink(face: str, justified: bool):
    page, truth = drawn(LINES, face, justified)
    laid = found(TEXT, page)
    assert [TEXT[one.start : one.end] for one in laid] == " ".join(LINES).replace("re- ", "re ").split()
    assert [one.line for one in laid] == [number for number, boxes in enumerate(truth) for _ in boxes]
    assert all(one.sure for one in laid)
    boxes = [box for row in truth for box in row]
    assert min(overlap(one.box, box) for one, box in zip(laid, boxes, strict=True)) > 0.7


def test_other_places_of_words_would_be_seen():
    """What the test above measures by can fail: the places of words that lie one further do not pass."""
    page, truth = drawn(LINES)
    boxes = [box for row in truth for box in row]
    assert max(overlap(one.box, box) for one, box in zip(found(TEXT, page)[1:], boxes, strict=False)) < 0.5


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        (TEXT.replace("gave", "gaue").replace("1740", "174O"), set()),
        (TEXT.replace("stone, ", "stone, a stone, "), {2}),
        (TEXT.replace("dug by hand, ", ""), {0}),
        (TEXT + " And here are words that the print does not have at all.", set()),
    ],
    ids=["misread", "said twice", "left out", "invented"],
)
def test_what_the_vlm_says_otherwise_loses_its_own_line_at_most(text: str, lost: set[int]):
    page, truth = drawn(LINES)
    right = {
        one.line
        for one in found(text, page)
        if one.sure and any(overlap(one.box, box) > 0.7 for box in truth[one.line])
    }
    assert right >= set(range(4)) - lost
    wrong = [
        one for one in found(text, page) if one.sure and not any(overlap(one.box, b) > 0.5 for b in truth[one.line])
    ]
    assert {one.line for one in wrong} <= lost


def test_a_line_that_the_text_lacks_takes_no_words():
    page, truth = drawn((LINES[0], "Figures of another block", *LINES[1:]))
    laid = found(TEXT, page)
    assert {one.line for one in laid if one.sure} == {0, 2, 3, 4}


def squares(rows: Sequence[str], size: int = 30) -> Image.Image:
    """Simulated ideographs: no font on a plain machine has real ones. Each is a square in two parts."""
    page = Image.new("L", (size * max(map(len, rows)) + 40, (size + 12) * len(rows) + 40), 255)
    draw = ImageDraw.Draw(page)
    for row, text in enumerate(rows):
        for column, sign in enumerate(text):
            left, top = 20 + column * size, 20 + row * (size + 12)
            if sign == "，":
                draw.rectangle((left + 3, top + 20, left + 8, top + 27), fill=0)
            else:
                draw.rectangle((left + 2, top + 2, left + 10, top + 27), fill=0)
                draw.rectangle((left + 14, top + 2, left + 27, top + 27), fill=0)
    return page


IDEOGRAPHS = ("检索增强生成需要", "好的分块，表格与", "公式也在其中")


def test_each_ideograph_has_its_place():
    laid = found("".join(IDEOGRAPHS), squares(IDEOGRAPHS))
    assert [one.line for one in laid] == [row for row, text in enumerate(IDEOGRAPHS) for _ in text]
    columns = [column for text in IDEOGRAPHS for column in range(len(text))]
    assert all(one.sure for one in laid)
    assert all(abs(one.box.left - (20 + 30 * column)) <= 4 for one, column in zip(laid, columns, strict=True))


def test_columns_of_vertical_writing_are_read_from_the_right():
    page = squares(IDEOGRAPHS).transpose(Image.Transpose.ROTATE_270)
    laid = found("".join(IDEOGRAPHS), page, down=True)
    assert [one.line for one in laid] == [row for row, text in enumerate(IDEOGRAPHS) for _ in text]
    assert laid[0].box.left > laid[-1].box.left and laid[0].box.top < laid[7].box.top
    assert all(one.box.height < 40 for one in laid)


def test_words_of_a_script_from_right_to_left():
    words = ["מים", "מן", "הבאר", "הישנה", "בחצר"]
    page, _ = drawn([" ".join(words[::-1])], justified=False)
    laid = found(" ".join(words), page)
    assert [one.box.left for one in laid] == sorted((one.box.left for one in laid), reverse=True)


@pytest.mark.parametrize("text", ["word " * 4000, "x" * 30_000, "字" * 20_000, "$a_{" * 8000, "-/" * 9000])
def test_time_is_bounded_whatever_the_text_is(text: str):
    page, _ = drawn(LINES)
    began = time.process_time()
    found(text, page)
    assert time.process_time() - began < 5


def test_a_page_has_one_effort_and_texts_are_dealt_out_by_lengths_when_it_is_spent():
    """Words that fit the ink nowhere took 49 s for one block."""
    runs = [tuple(Box(12 * run, 20 * row, 12 * run + 8, 20 * row + 14) for run in range(70)) for row in range(400)]
    lines = [Line(around(row), row) for row in runs]
    effort = Effort()
    text = "a b " * 4500
    for _ in range(4):
        laid = lay(text, lines, effort)
        assert len(laid) == 9000 and not any(one.sure for one in laid)
    page, _ = drawn(LINES)
    printed = lines_in(page, Box(0, 0, page.width, page.height), 1.0)
    assert not any(one.sure for one in lay(TEXT, printed, effort)) and any(
        one.sure for one in lay(TEXT, printed, Effort())
    )


def test_print_that_is_a_pattern_has_no_words():
    chance = random.Random(1)
    page = Image.new("L", (900, 300), 255)
    page.putdata([chance.choice((0, 255)) for _ in range(900 * 300)])
    assert not any(one.sure for one in found(TEXT, page))


def test_without_lines_nothing_is_laid_and_without_ink_nothing_is_sure():
    assert lay(TEXT, [], Effort()) == [] == lay(" \n ", [Line(Box(0, 0, 100, 20))], Effort())
    laid = lay(TEXT, [Line(Box(0, 0, 100, 20)), Line(Box(0, 30, 100, 50))], Effort())
    assert "".join(TEXT[one.start : one.end] for one in laid) == "".join(TEXT.split())
    assert not any(one.sure for one in laid) and {one.line for one in laid} == {0, 1}
