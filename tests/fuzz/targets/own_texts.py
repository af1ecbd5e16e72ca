# SPDX-License-Identifier: Apache-2.0
"""What a page says itself: bytes that a renderer under a stranger's file may send, characters anywhere on the page, and
the VLM's text beside the page's."""

from __future__ import annotations

import numpy as np

from docparser.own_text.characters import CHARACTER, MOST_STYLES, STYLE, Characters, ForeignBytes
from docparser.own_text.page_text import BlockText, OwnText, paragraphs
from docparser.page.alignment import TABLE_MARKS, TEXT_MARKS, Alignment, is_misread, repaired
from docparser.places.box import Box
from tests.fuzz.choices import Choices
from tests.fuzz.verdict import Broken

WORDS = (
    *("word ", "a ", "ab", "1,234.5 ", "句", "\u0301", "\ufb01", "\u00ad", "\u202e", "\ue000", "(cid:12)", "\n"),
    *(r"\(x_1\)", r"\[", "$$", "<sup>2</sup>", "**", "<fcel>", "<ecel>", "<nl>", "<lcel>"),
)
SIDE = 300  # pixels of the page
LONGEST = 12_000  # characters of a text


def target(data: bytes) -> None:
    choices = Choices(data)
    kind = choices.below(3)
    if kind == 0:
        sent(choices)
    elif kind == 1:
        page(choices)
    else:
        two_texts(choices)


def sent(choices: Choices) -> None:
    """Bytes as they are, and those of a page of which some are changed."""
    data = bytearray(characters(choices).to_bytes() if choices.chance(2) else choices.take(200))
    for _ in range(choices.below(6)):
        if data:
            data[choices.below(len(data)) % len(data)] = choices.byte()
    try:
        found = Characters.from_bytes(data)
    except ForeignBytes:
        return
    judged(found, choices)


def page(choices: Choices) -> None:
    judged(characters(choices), choices)


def characters(choices: Choices) -> Characters:
    """Characters in a few lines, or strewn over the page, in one style or in many."""
    chance = np.random.default_rng(choices.below(256))
    count, styles = choices.one((1, 7, 300, 1000, 50_000)), choices.one((1, 3, 500, MOST_STYLES))
    style = np.zeros(styles, STYLE)
    style["font"] = np.arange(styles) % choices.one((1, 4, 5000))
    style["size"] = choices.one((0.0, 3.0, 9.0, 40.0)) + chance.random(styles) * choices.one((0, 1, 30))
    style["angle"] = choices.one((0, 0, 0, 90, -3))
    style["colour"], style["mode"] = choices.one((0xFF, 0xFFFFFFFF, 0)), choices.one((0, 0, 3, 7, 255))
    each = np.zeros(count, CHARACTER)
    each["style"] = np.sort(chance.integers(0, styles, count))
    low, high = choices.one(((65, 66), (32, 127), (0x4E00, 0x9F00), (0, 0x10FFFF), (0x590, 0x600)))
    each["code"] = chance.integers(low, high, count)
    each["flags"] = chance.integers(0, 16, count) if choices.chance(3) else 0
    if choices.chance(2):
        places = chance.uniform(-20, SIDE + 20, (count, 2))
    else:
        across = choices.one((1, 20, 250))
        places = np.stack([np.arange(count) % across * 7.0, 12 + np.arange(count) // across * 9.0], 1)
    size = style["size"][each["style"]][:, None] * choices.one((0, 0.5, 20))
    each["origin"], each["box"] = places, np.concatenate([places - size * (0, 1), places + size * (1, 0)], 1)
    return Characters(each, style, complete=not choices.chance(9))


def judged(found: Characters, choices: Choices) -> None:
    ground = np.full((SIDE, SIDE, 3), choices.one((255, 0, 128)), np.uint8)
    if choices.chance(2):
        ground[np.random.default_rng(0).random((SIDE, SIDE)) < 0.3] = choices.byte()
    own = OwnText(found, ground)
    boxes = [Box(*(float(choices.below(SIDE)) for _ in range(4))) for _ in range(choices.below(6))]
    for block in (*own.blocks(boxes), *own.outside(boxes)):
        check(block, complete=found.complete)
    if own.hidden.total() > len(found):
        raise Broken("a character is hidden for one reason")


def check(block: BlockText, *, complete: bool) -> None:
    if block.true and not (complete and block.lines):
        raise Broken("a true block has text, and the page was read to its end")
    paragraphs(block).encode()


def two_texts(choices: Choices) -> None:
    marks = choices.one((TEXT_MARKS, TABLE_MARKS))
    both = Alignment.of(choices.text(WORDS, LONGEST), choices.text(WORDS, LONGEST), marks)
    at = [(0, 0), *((op[2], op[4]) for op in both.ops)]
    if [(op[1], op[3]) for op in both.ops] != at[:-1] or at[-1] != (len(both.vlm.compared), len(both.page.compared)):
        raise Broken("every letter is in one op")
    if both.agreement is not None and not 0 <= both.agreement <= 1:
        raise Broken("an agreement is from 0 to 1")
    both.differences()
    is_misread(both)
    text = repaired(both, whole=choices.chance(2))
    if text is not None:
        found = iter(marks.findall(text))
        if not all(mark in found for mark in marks.findall("".join(both.vlm.gaps))):
            raise Broken("a repaired text has the marks of the VLM's, in their order")


def seeds() -> list[bytes]:
    texts = [bytes([2, 0, 4, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5]), bytes([2, 1, 3, 0, 0, 0, 1, 4, 0, 2])]
    return [bytes([kind, *range(number, number + 30)]) for kind in range(3) for number in range(0, 60, 12)] + texts
