# SPDX-License-Identifier: Apache-2.0
"""Places of words: any text on any ink, and on what a page says. No word is said twice or out of order, and each box
lies where there is something."""

from __future__ import annotations

from typing import cast

from PIL import Image, ImageDraw

from docparser.contract.answers import Block
from docparser.contract.schemas import Places
from docparser.page.places import Ground, ground_of_lines, places_of
from docparser.places.atoms import atoms_of
from docparser.places.box import Box
from docparser.places.ink import Line, lines_in
from docparser.places.laying import Effort, lay
from tests.fuzz.choices import Choices
from tests.fuzz.verdict import Broken

WORDS = (
    *(
        "word ",
        "a ",
        "ab",
        "1,234.5 ",
        "句",
        "。",
        "한국 ",
        "מים ",
        "\u0301",
        "\ufb01",
        "-",
        "re-\n",
        "\n",
        "\t",
        "/x/",
    ),
    *("$x^2$ ", r"\(a_1\)", "$$", "## ", "**", "<sup>2</sup>", "<table><tr><td>1<td>2</table>", "![](a)", "\U00020000"),
)
WIDE, HIGH = 400, 160  # pixels of the page


def target(data: bytes) -> None:
    choices = Choices(data)
    text = choices.text(WORDS)
    if choices.chance(2):
        lines = inked(choices)
        laid = lay(text, lines, Effort())
        check(text, lines, [(one.start, one.end, one.box) for one in laid])
        if lines and sorted(_covered((one.start, one.end) for one in laid)) != sorted(
            _covered((atom.start, atom.end) for atom in atoms_of(text))
        ):
            raise Broken("each word is there, and once")
        ground: Ground = ground_of_lines(lines)
    else:
        ground = said(choices)
    kind = choices.one(("words", "lines", "cells"))
    block = {"block_id": 1, "block_label": "text", "block_content": text, "block_bbox": [0, 0, WIDE, HIGH]}
    for found in places_of([cast(Block, block)], [ground], cast(Places, kind)):
        before = 0
        for one in (*found.get("words", ()), *found.get("lines", ())):
            if not (before <= one["start"] < one["end"] <= len(text)) or one["text"] != text[one["start"] : one["end"]]:
                raise Broken("places are parts of the text, in order")
            before = one["end"]


def inked(choices: Choices) -> list[Line]:
    page = Image.new("L", (WIDE, HIGH), 255)
    draw = ImageDraw.Draw(page)
    for _ in range(choices.below(60)):
        left, top = choices.below(WIDE), choices.below(HIGH)
        draw.rectangle((left, top, left + choices.below(30), top + choices.below(20)), fill=choices.below(200))
    return lines_in(page, Box(0, 0, WIDE, HIGH), choices.one((0.5, 1.0, 2.0)), down=choices.chance(4))


def said(choices: Choices) -> Ground:
    """Words that a page may say."""
    lines = []
    for number in range(choices.below(6)):
        words = []
        for word in choices.text(WORDS).split()[:20]:
            left = float(choices.below(WIDE))
            words.append([word, [left, 20.0 * number, left + choices.below(90), 20.0 * number + 18], choices.chance(5)])
        lines.append(words)
    return {"words": lines}


def check(text: str, lines: list[Line], laid: list[tuple[int, int, Box]]) -> None:
    before = 0
    for start, end, box in laid:
        if not before <= start < end <= len(text):
            raise Broken("words are in order")
        before = end
        if not any(
            line.box.left - 1 <= box.left <= box.right <= line.box.right + 1
            and line.box.top - 1 <= box.top <= box.bottom <= line.box.bottom + 1
            for line in lines
        ):
            raise Broken("a word stands on a line")


def _covered(ranges: object) -> set[int]:
    return {at for start, end in cast("list[tuple[int, int]]", ranges) for at in range(start, end)}


def seeds() -> list[bytes]:
    return [bytes((start * 7 + step * 31) % 256 for step in range(90)) for start in range(0, 180, 30)]
