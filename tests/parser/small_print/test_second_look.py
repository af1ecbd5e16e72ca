# SPDX-License-Identifier: Apache-2.0
"""Bands whose text does not fit their print are asked again line by line; others are not."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import cast

import numpy as np
import pytest
from PIL import Image, ImageDraw

from docparser.contract.schemas import ParseOptions
from docparser.page.question import BlockCalls, Question, Sampling
from docparser.small_print import reading
from docparser.small_print.bands import bands_of
from docparser.small_print.reading import read_small_print
from docparser.vlm.client import Reply, VlmClient
from docparser.vlm.failures import BlockNote
from tests.support.fonts import FACES, font

LINES = [  # no word fits into the room that the line before leaves, as in a paragraph
    "The quick brown fox jumps over a lazy dog, and gypsy",
    "moths quote six wizards by the light of one candle.",
    "Every page that was read by the light is kept below,",
    "and what was lost is asked for once more, by a line.",
    "Then it stops; whoever comes next begins from there,",
    "with the same words and the same print as all before.",
    "Nothing else is changed by it, and nobody waits long",
    "for the few lines of a page that were read too short.",
    "Everything else on the page, we think, is like this.",
]


def question(lines: list[str], face: str = "sans", size: int = 22) -> Question:
    drawn = font(size, face)
    image = Image.new("RGB", (40 * size, round(1.5 * size * len(lines)) + 6), "white")
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((4, round(size * (1.0 + 1.5 * number))), line, fill="black", font=drawn, anchor="ls")
    return Question(np.asarray(image), "OCR:", 1, 1_003_520)


class Reader:
    """A VLM that reads bands as it is told, and single lines as they are."""

    def __init__(self, bands: list[str], lines: list[str]) -> None:
        self.asked: list[str] = []
        self._bands, self._lines = bands, lines

    async def read_block(self, body: dict, request_id: str, guard: object) -> Reply:
        self.asked.append(request_id)
        number = int(request_id.rsplit("-", 1)[1])
        return Reply((self._lines if "-again-" in request_id else self._bands)[number], tokens=(10, 5))


def read(reader: Reader, asked: Question) -> Reply:
    calls = BlockCalls(cast(VlmClient, reader), "model", "page-b0")
    return asyncio.run(_awaited(asked, calls))


async def _awaited(asked: Question, calls: BlockCalls) -> Reply:
    return await read_small_print(asked, Sampling.of(ParseOptions(), spotting=False), calls)


def of_bands(lines: list[str]) -> list[str]:
    """What is right for each band of nine lines."""
    return [" ".join(lines[:3]), " ".join(lines[3:6]), " ".join(lines[6:])]


LOOPED = BlockNote("repetition", "cut")


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        (Reply("x" * 80), Reply("y" * 80), "y"),
        (Reply("x" * 80), Reply("y" * 50), "x"),  # it is too short for the print
        (Reply("x" * 40), Reply("y" * 50), "y"),
        (Reply("x" * 80), Reply("y" * 130), "x"),
        (Reply("x" * 140), Reply("y" * 130), "y"),
        (Reply("x" * 80, LOOPED), Reply("y" * 50), "y"),
        (Reply("x" * 50), Reply("y" * 80, LOOPED), "x"),
        (Reply("x" * 50), Reply("  "), "x"),
        (Reply("x" * 50), Reply("you say, you say, you say, you say " * 2), "x"),
    ],
)
def test_of_two_looks_the_better_is_taken(monkeypatch: pytest.MonkeyPatch, first: Reply, second: Reply, chosen: str):
    monkeypatch.setattr(reading, "print_length", lambda band: 100.0)
    first, second = (dataclasses.replace(reply, tokens=(10, at)) for at, reply in enumerate((first, second), 1))
    found = reading.better(first, second, None)  # type: ignore[arg-type]  # nobody looks at it
    assert found.text == (first if chosen == "x" else second).text and found.tokens == (20, 3)


@pytest.mark.parametrize(
    ("rate", "usual", "taken"),
    [
        (reading.LEAST, None, True), (reading.LEAST - 0.01, None, False),
        (reading.MOST, None, True), (reading.MOST + 0.01, None, False),
        (0.7, 0.8, True), (0.63, 0.8, False), (0.95, 0.8, True), (0.97, 0.8, False),
    ],
)  # fmt: skip
def test_what_may_be_said_by_so_much_print(rate: float, usual: float | None, taken: bool):
    assert reading.fits("some words", rate, usual) is taken


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("size", [14, 22, 40])
def test_what_fits_its_print_is_asked_once(face: str, size: int):
    reader = Reader(of_bands(LINES), [])
    reply = read(reader, question(LINES, face, size))
    assert reply.text == " ".join(LINES) and len(reader.asked) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        " ".join(LINES[3:5]),
        " ".join([*LINES[3:6], LINES[4]]),
        "and what was and what was and what was and what was lost is asked for once more, by a line. Then it stops;",
        "",
    ],
    ids=["a line is lost", "a line is said twice", "it loops", "nothing is said"],
)
def test_what_does_not_fit_is_asked_line_by_line(wrong: str):
    said = of_bands(LINES)
    said[1] = wrong
    reader = Reader(said, LINES[3:6])
    reply = read(reader, question(LINES))
    assert reply.text == " ".join(LINES)
    assert [name for name in reader.asked if "again" in name] == [f"page-b0-1-again-{line}" for line in range(3)]
    assert reply.tokens == (60, 30), "both readings count"


def test_of_two_readings_that_do_not_fit_the_better_one_stays():
    said = of_bands(LINES)
    said[1] = " ".join(LINES[3:5])
    assert read(Reader(said, ["", "", "th"]), question(LINES)).text == " ".join(said)


def test_each_line_is_a_picture_of_its_own():
    (band,) = bands_of(question(LINES[:4]))
    asked = band.by_line()
    assert len(asked) == 4 and sum(len(line.picture) for line in asked) == len(band.question.picture)
    assert all(line.least_pixels > 1 for line in asked)


def test_a_single_line_and_little_print_are_left_as_they_are():
    single, short = bands_of(question(LINES[:1])), bands_of(question(["a b", "c"]))
    assert reading.doubtful(single, [Reply("x")]) == [] == reading.doubtful(short, [Reply("")])
    (empty,) = bands_of(question([]))
    assert reading.print_length(empty) == 0.0 and reading.doubtful([empty], [Reply("tail")]) == []


def test_a_band_that_failed_is_not_asked_again():
    (band,) = bands_of(question(LINES[:4]))
    assert reading.doubtful([band], [Reply("", BlockNote("failed", "it failed"))]) == []
    assert reading.doubtful([band], [Reply(" ".join(LINES[:4]), BlockNote("repetition", "it loops"))]) == [0]


def test_wide_gaps_count_as_a_blank():
    (close,) = bands_of(question(["one two three four five"] * 2))
    (wide,) = bands_of(question(["one      two      three      four      five"] * 2))
    assert reading.print_length(wide) == pytest.approx(reading.print_length(close), rel=0.12)
    assert np.isclose(close.x_height, wide.x_height, rtol=0.1)
