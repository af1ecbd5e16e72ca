# SPDX-License-Identifier: Apache-2.0
"""Lines of a text layer find their blocks, in one column and in two."""

from __future__ import annotations

import pytest
from PIL import Image

from demo_training.typesetters.blocks import TextBlock
from demo_training.typesetters.characters import Character
from demo_training.typesetters.placed import PlacedBlock, blocks_on_pages, covers

HEIGHT = 1000.0
TITLE = TextBlock("title", ("About the harvest of apples",))
FIRST = TextBlock(
    "paragraph", ("Apples are picked when they are ripe, which is late in a cold year, and early in a warm one.",)
)
SECOND = TextBlock("paragraph", ("Whoever stores them keeps pears elsewhere, because both ripen faster side by side.",))
CODE = TextBlock("code", ("picked = sort(apples)", "store(picked)"))


def line(text: str, left: float, top: float) -> list[Character]:
    """Letters 10 px wide and 12 px high."""
    return [Character(c, left + 10 * n, left + 10 * (n + 1), top, top + 12) for n, c in enumerate(text)]


def lines(texts: list[str], left: float, top: float, pitch: float = 20) -> list[list[Character]]:
    return [line(text, left, top + pitch * number) for number, text in enumerate(texts)]


FIRST_LINES = ["Apples are picked when they are ripe, which is", "late in a cold year, and early in a warm one."]
SECOND_LINES = ["Whoever stores them keeps pears elsewhere,", "because both ripen faster side by side."]


def labels(blocks: list[PlacedBlock] | None) -> list[tuple[str, float]]:
    assert blocks is not None
    return [(block.label, block.bbox[1]) for block in blocks]


def test_title_paragraph_code_and_page_number():
    page = [
        *lines(["1 About the harvest of apples"], 100, 50),
        *lines(FIRST_LINES, 100, 100),
        *lines(SECOND_LINES, 100, 160),
        *lines(["picked = sort(apples)", "store(picked)"], 140, 220),
        *lines(["7"], 300, 960),
    ]
    (blocks,) = blocks_on_pages([TITLE, FIRST, SECOND, CODE], [page], [HEIGHT])
    assert labels(blocks) == [("paragraph_title", 50), ("text", 100), ("text", 160), ("text", 220), ("number", 960)]
    assert blocks is not None and blocks[1].bbox == (100, 100, 100 + 10 * len(FIRST_LINES[0]), 132)


def test_a_paragraph_that_goes_on_in_the_next_column_is_two_blocks():
    page = [*lines(FIRST_LINES[:1], 20, 900), *lines(FIRST_LINES[1:], 520, 50), *lines(SECOND_LINES, 520, 100)]
    (blocks,) = blocks_on_pages([FIRST, SECOND], [page], [HEIGHT])
    assert blocks is not None and [block.bbox[:2] for block in blocks] == [(20, 900), (520, 50), (520, 100)]


def test_a_paragraph_goes_on_on_the_next_page():
    pages = [lines(FIRST_LINES[:1], 100, 900), [*lines(FIRST_LINES[1:], 100, 50), *lines(SECOND_LINES, 100, 100)]]
    first, second = blocks_on_pages([FIRST, SECOND], pages, [HEIGHT, HEIGHT])
    assert labels(first) == [("text", 900)] and labels(second) == [("text", 50), ("text", 100)]


@pytest.mark.parametrize(("top", "indent", "count"), [(140, 0, 1), (140, 30, 2), (155, 0, 2)])
def test_paragraphs_that_nothing_parts_are_one_block(top: float, indent: float, count: int):
    second = [line(SECOND_LINES[0], 100 + indent, top), line(SECOND_LINES[1], 100, top + 20)]
    (blocks,) = blocks_on_pages([FIRST, SECOND], [[*lines(FIRST_LINES, 100, 100), *second]], [HEIGHT])
    assert blocks is not None and len(blocks) == count


@pytest.mark.parametrize(("pitch", "count"), [(20, 1), (30, 3)])
def test_white_parts_items(pitch: float, count: int):
    """Items that follow each other like lines are one block, whatever the bottom of their letters."""
    items = TextBlock("items", ("Apples are ripe late", "gypsum is quarried early", "pears keep elsewhere"))
    page = [*lines(FIRST_LINES, 100, 100), *lines(list(items.parts), 130, 160, pitch)]
    (blocks,) = blocks_on_pages([FIRST, items], [page], [HEIGHT])
    assert blocks is not None and len(blocks) == 1 + count


def test_the_title_of_the_document():
    title = TextBlock("document_title", TITLE.parts)
    page = [line(TITLE.parts[0], 100, 40), *lines(FIRST_LINES, 100, 100)]
    (blocks,) = blocks_on_pages([title, FIRST], [page], [HEIGHT])
    assert labels(blocks) == [("doc_title", 40), ("text", 100)]


def test_a_title_in_the_line_of_its_paragraph_is_no_title():
    page = [line(f"{TITLE.parts[0]} {FIRST_LINES[0]}", 100, 100), line(FIRST_LINES[1], 100, 120)]
    (blocks,) = blocks_on_pages([TITLE, FIRST], [page], [HEIGHT])
    assert labels(blocks) == [("text", 100)]


def test_what_is_printed_over_each_other_has_no_truth():
    page = [*lines(FIRST_LINES, 100, 100), *lines(SECOND_LINES, 400, 100)]
    assert blocks_on_pages([FIRST, SECOND], [page], [HEIGHT]) == [None]


def test_ink_outside_of_all_blocks_is_seen():
    image = Image.new("RGB", (400, 300), "white")
    image.paste((0, 0, 0), (50, 50, 250, 70))
    block = PlacedBlock("text", (50.0, 50.0, 250.0, 70.0))
    assert covers([block], image)
    image.paste((0, 0, 0), (50, 200, 250, 220))
    assert not covers([block], image)
    assert not covers([block], Image.new("RGB", (400, 300), "white")), "a page without ink shows nothing"
