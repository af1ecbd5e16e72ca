# SPDX-License-Identifier: Apache-2.0
"""Bands whose text does not fit their print are asked again line by line; others are not."""

from __future__ import annotations

import asyncio
import base64
import io
from typing import cast

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from docparser.small_print import bands, second_look
from docparser.vlm.client import Reply, VlmClient
from docparser.vlm.failures import BlockNote
from docparser.worker.block_client import BlockClient

FACES = {
    "sans": "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "serif": "/usr/share/fonts/truetype/liberation/LiberationSerif-Regular.ttf",
    "typewriter": "/usr/share/fonts/truetype/liberation/LiberationMono-Regular.ttf",
}
LINES = [
    "The quick brown fox jumps over a lazy dog, and gypsy",
    "moths quote six wizards by the light of one candle.",
    "Every page that was read by the light is kept below,",
    "and what was lost is asked for once more, by a line.",
    "Then it stops; whoever comes next begins from there,",
    "with the same words and the same print as all before.",
    "Nothing else is changed by it, and nobody waits long",
    "for the few lines of a page that were read too short.",
    "So much for this; the rest of the page is like this.",
]


def request(lines: list[str], face: str = "sans", size: int = 22) -> dict:
    font = ImageFont.truetype(FACES[face], size)
    image = Image.new("RGB", (40 * size, round(1.5 * size * len(lines)) + 6), "white")
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((4, round(size * (1.0 + 1.5 * number))), line, fill="black", font=font, anchor="ls")
    coded = io.BytesIO()
    image.save(coded, "JPEG")
    url = "data:image/jpeg;base64," + base64.b64encode(coded.getvalue()).decode()
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "OCR:"}]
    return {"messages": [{"role": "user", "content": content}], "mm_processor_kwargs": {"max_pixels": 1_003_520}}


def height(question: dict) -> int:
    url = question["messages"][0]["content"][0]["image_url"]["url"]
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).height


class Reader:
    """A VLM that reads bands as it is told, and single lines as they are."""

    def __init__(self, bands: list[str], lines: list[str]) -> None:
        self.asked: list[str] = []
        self._bands, self._lines = bands, lines

    async def read_block(self, body: dict, request_id: str, guard: object) -> Reply:
        self.asked.append(request_id)
        number = int(request_id.rsplit("-", 1)[1])
        return Reply((self._lines if "-again-" in request_id else self._bands)[number], tokens=(10, 5))


def read(reader: Reader, body: dict) -> Reply:
    client = BlockClient.__new__(BlockClient)  # without its thread
    client.vlm, client._model = cast(VlmClient, reader), "model"
    return asyncio.run(client._read_bands(bands.questions(body), "page-b0"))


def of_bands(lines: list[str]) -> list[str]:
    """What is right for each band of nine lines."""
    return [" ".join(lines[:3]), " ".join(lines[3:6]), " ".join(lines[6:])]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("size", [14, 22, 40])
def test_what_fits_its_print_is_asked_once(face: str, size: int):
    reader = Reader(of_bands(LINES), [])
    reply = read(reader, request(LINES, face, size))
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
    reply = read(reader, request(LINES))
    assert reply.text == " ".join(LINES)
    assert [name for name in reader.asked if "again" in name] == [f"page-b0-1-again-{line}" for line in range(3)]
    assert reply.tokens == (60, 30), "both readings count"


def test_of_two_readings_that_do_not_fit_the_better_one_stays():
    said = of_bands(LINES)
    said[1] = " ".join(LINES[3:5])
    assert read(Reader(said, ["", "", "th"]), request(LINES)).text == " ".join(said)


def test_each_line_is_a_picture_of_its_own():
    (band,) = bands.questions(request(LINES[:4]))
    asked = band.by_line()
    assert len(asked) == 4 and sum(map(height, asked)) == height(band.request)
    assert all(question["mm_processor_kwargs"]["min_pixels"] for question in asked)


def test_a_single_line_and_little_print_are_left_as_they_are():
    single, short = bands.questions(request(LINES[:1])), bands.questions(request(["a b", "c"]))
    assert second_look.doubtful(single, [Reply("x")]) == [] == second_look.doubtful(short, [Reply("")])
    (empty,) = bands.questions(request([]))
    assert second_look.print_length(empty) == 0.0 and second_look.doubtful([empty], [Reply("tail")]) == []


def test_a_band_that_failed_is_not_asked_again():
    (band,) = bands.questions(request(LINES[:4]))
    assert second_look.doubtful([band], [Reply("", BlockNote("failed", "it failed"))]) == []
    assert second_look.doubtful([band], [Reply(" ".join(LINES[:4]), BlockNote("repetition", "it loops"))]) == [0]


def test_wide_gaps_count_as_a_blank():
    (close,) = bands.questions(request(["one two three four five"] * 2))
    (wide,) = bands.questions(request(["one      two      three      four      five"] * 2))
    assert second_look.print_length(wide) == pytest.approx(second_look.print_length(close), rel=0.12)
    assert np.isclose(close.x_height, wide.x_height, rtol=0.1)
