# SPDX-License-Identifier: Apache-2.0
"""Lists and addresses keep the ends of their lines; paragraphs have none."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw

from docparser.page.question import Question
from docparser.small_print.bands import bands_of, whole
from tests.support.fonts import FACES, font

LIST = [
    "- Keys: one set each, never lend them",
    "- Alarm: you have 40 seconds to enter the code",
    "- Phone: leave it on",
]
ADDRESS = ["Harbour Lane Bindery", "14 Harbour Lane", "Easton EA4 2QT", "Phone: 555-0187"]
PARAGRAPH = [
    "Be at the back door by half past four. Check that the yard",
    "light works and that no delivery blocks the ramp, and then",
    "look for the key under the mat of the neighbour, who lives",
    "on the left.",
]
TOTALS = ["Total of all items: $911.40", "Tax: $68.36", "Sum: $979.76"]
LONG = [f"{number}. {words}" for number, words in enumerate(("rye loaves, 48 pieces", "wheat loaves", "rolls",
        "cheese sticks and pretzels", "small cakes with almonds", "tea", "a pound of butter", "salt"), 1)]  # fmt: skip


def read(lines: list[str], size: int = 22, face: str = "sans", texts: list[str] | None = None) -> str:
    """The block as a VLM reads it that says no ends of lines."""
    used = font(size, face)
    width = max(int(used.getlength(line)) for line in lines) + 12
    image = Image.new("RGB", (width, round(size * 1.4 * len(lines)) + 8), "white")
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((5, 4 + round(number * size * 1.4)), line, "black", used)
    bands = bands_of(Question(np.asarray(image)[:, :, ::-1], "OCR:", 1, 10**7))
    counts = [len(band.bodies) for band in bands]
    assert sum(counts) == len(lines)
    at, said = 0, []
    for count in counts:
        said.append(" ".join(lines[at : at + count]))
        at += count
    return whole(bands, texts or said)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("lines", [LIST, ADDRESS, LONG, [*ADDRESS[:2], *LIST]], ids=["list", "address", "long", "both"])
def test_lines_that_were_meant_stay(lines: list[str], face: str):
    assert read(lines, face=face) == "\n".join(lines)


@pytest.mark.parametrize("face", FACES)
def test_a_paragraph_is_one(face: str):
    width = font(22, face).getlength(PARAGRAPH[0])
    words, lines = " ".join(PARAGRAPH).split(), [""]
    for word in words:
        longer = f"{lines[-1]} {word}".strip()
        if font(22, face).getlength(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    assert read(lines, face=face) == " ".join(words)


def test_lines_that_stand_flush_right_stay():
    longest = max(font(22).getlength(line) for line in TOTALS)
    image = Image.new("RGB", (int(longest) + 12, 110), "white")
    for number, line in enumerate(TOTALS):
        ImageDraw.Draw(image).text((image.width - 6, 6 + number * 34), line, "black", font(22), "ra")
    bands = bands_of(Question(np.asarray(image)[:, :, ::-1], "OCR:", 1, 10**7))
    assert whole(bands, [" ".join(TOTALS)]) == "\n".join(TOTALS)


def test_paragraphs_that_follow_closely_are_apart():
    assert read([*PARAGRAPH, PARAGRAPH[0]]) == " ".join(PARAGRAPH) + "\n" + PARAGRAPH[0]


def test_a_text_that_does_not_fit_its_lines_stays_as_it_was_read():
    for text in ("word", "", "one very long line of words that nobody can find in the print, and a half " * 2):
        assert read(ADDRESS, texts=[text]) == text.strip()
