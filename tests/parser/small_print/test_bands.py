# SPDX-License-Identifier: Apache-2.0
"""Blocks in bands: lines are found by their ink, and no cut goes through one."""

from __future__ import annotations

import base64
import dataclasses
import io

import numpy as np
import pytest
from PIL import Image, ImageDraw

from docparser.page.question import Question
from docparser.small_print import bands
from docparser.small_print.bands import picture_of
from docparser.small_print.reading import one
from docparser.vlm.client import Reply
from docparser.vlm.failures import BlockNote
from tests.support.fonts import font
from tests.support.wait import wait_for

WORDS = "the quick brown fox jumps over a lazy dog and they gypsy; (again) Pj,".split()


def block(
    lines: int,
    size: int,
    pitch: float,
    paper: int = 255,
    ink: int = 0,
    last: int = 9,
) -> tuple[np.ndarray, list[int]]:
    """A paragraph, and the middle row of each of its lines' small letters. ``last``: words of its last line."""
    face = font(size)
    image = Image.new("L", (size * 30, round(size * pitch * (lines - 1) + size * 1.4)), paper)
    draw = ImageDraw.Draw(image)
    middles = []
    for number in range(lines):
        words = WORDS[number % 5 :][: last if number + 1 == lines else 9]
        baseline = round(size * (1.0 + number * pitch))
        draw.text((4, baseline), " ".join(words), fill=ink, font=face, anchor="ls")
        middles.append(baseline - round(size / 4))
    return np.asarray(image), middles


@pytest.mark.parametrize("pitch", [1.15, 1.2, 1.5, 2.0])
@pytest.mark.parametrize("lines", [1, 3, 5, 6, 13, 40])
def test_a_band_has_four_lines_or_so_and_no_cut_goes_through_one(lines: int, pitch: float):
    image, middles = block(lines, 20, pitch, last=1)
    found = bands.find(image).rows
    assert found[0][0] == 0 and found[-1][1] == len(image)
    assert [end for _, end in found[:-1]] == [first for first, _ in found[1:]]
    inside = [[row for row in middles if first <= row < end] for first, end in found]
    assert sum(map(len, inside)) == lines
    if lines <= bands.ALONE:
        assert len(found) == 1
    else:
        assert {len(rows) for rows in inside} <= {3, 4}
    for _, end in found[:-1]:
        near = min(abs(end - row) for row in middles)
        assert near > 20 * 0.3, "a cut goes through letters"


@pytest.mark.parametrize("size, scale", [(14, 13 / (0.547 * 14)), (20, 13 / (0.547 * 20)), (32, 1.0), (8, 2.4)])
def test_small_print_is_enlarged(size: int, scale: float):
    assert bands.find(block(8, size, 1.4)[0]).scale == pytest.approx(scale, rel=0.3)


def test_paper_may_be_grey_and_print_white():
    for paper, ink in ((180, 30), (20, 240)):
        image, _ = block(12, 24, 1.4, paper=paper, ink=ink)
        assert len(bands.find(image).rows) == 3


@pytest.mark.parametrize("image", [np.full((400, 300), 255, np.uint8), np.zeros((1, 1), np.uint8)])
def test_an_empty_block_stays_as_it_is(image: np.ndarray):
    assert bands.find(image) == bands.Bands([(0, len(image))], 1.0)


@pytest.mark.parametrize("lines", [1, 2, 12])
def test_what_is_upright_stays(lines: int):
    assert bands.skew(block(lines, 20, 1.4)[0]) == 0.0
    noise = np.random.default_rng(3).integers(0, 255, (300, 400), np.uint8)
    assert bands.skew(noise) == 0.0
    assert bands.skew(np.full((40, 90), 255, np.uint8)) == 0.0


def test_noise_and_pictures_are_cut_somewhere_and_nothing_is_lost():
    rng = np.random.default_rng(5)
    for image in (rng.integers(0, 256, (900, 700), np.uint8), np.tile(np.arange(256, dtype=np.uint8), (300, 3))):
        found = bands.find(image)
        assert found.rows[0][0] == 0 and found.rows[-1][1] == len(image)
        assert all(first < end for first, end in found.rows) and 1 <= found.scale <= bands.MOST_SCALE


def question(image: np.ndarray) -> Question:
    return Question(np.stack([image] * 3, axis=2), "OCR:", 112_896, 1_003_520)


def test_each_band_is_a_question_of_its_own():
    image, _ = block(12, 14, 1.4)
    whole = question(image)
    asked = [band.question for band in bands.bands_of(whole)]
    assert len(asked) == 3 and sum(len(band.picture) for band in asked) == len(image)
    for band in asked:
        assert band.prompt == "OCR:" and band.most_pixels == 1_003_520
        height, width = band.picture.shape[:2]
        enlarged = round(width * height * bands.find(image).scale ** 2)
        assert band.least_pixels == pytest.approx(max(112_896, enlarged), rel=0.1)
    assert whole.least_pixels == 112_896, "the first question is left as it was"


@pytest.mark.parametrize("degrees", [-1.5, -0.6, 0.8, 1.5])
@pytest.mark.parametrize("paper", [255, 215])
def test_a_block_that_was_scanned_askew_is_straightened(degrees: float, paper: int):
    straight = Image.fromarray(block(9, 20, 1.4, paper=paper)[0])
    askew = straight.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=paper)
    assert bands.skew(np.asarray(askew)) == pytest.approx(degrees, abs=0.15)
    asked = bands.bands_of(question(np.asarray(askew)))
    assert len(asked) == len(bands.find(np.asarray(straight)).rows)
    assert all(abs(bands.skew(np.asarray(picture_of(band.question).convert("L")))) < 0.3 for band in asked)


def test_large_print_of_a_few_lines_is_asked_as_it_is_or_straightened():
    straight = block(4, 40, 1.4)[0]
    whole = question(straight)
    (band,) = bands.bands_of(whole)
    assert band.question is whole
    askew = Image.fromarray(straight).rotate(1.5, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
    (band,) = bands.bands_of(question(np.asarray(askew)))
    asked = np.asarray(picture_of(band.question).convert("L"))
    assert abs(bands.skew(asked)) < 0.3 and np.array_equal(asked, band.grey), "its lines are cut where they were found"


@pytest.mark.parametrize(
    "texts, whole",
    [
        (["one two", " three"], "one two three"),
        (["an exam-", "ple of it"], "an example of it"),
        (["pages 3-", "5"], "pages 3- 5"),
        (["well-", "Known"], "well- Known"),
        (["", "a", "", "b"], "a b"),
        ([], ""),
    ],
)
def test_texts_are_joined_as_a_reader_would(texts: list[str], whole: str):
    assert bands.joined(texts) == whole


def test_the_reply_to_a_block_is_made_of_those_to_its_bands():
    cut = BlockNote("repetition", "it repeats itself")
    reply = one([Reply("abcd", None, (5, 2), 1.0), Reply("ab", cut, (6, 1), 0.4), Reply("", None, (1, 1))])
    assert reply.confidence == pytest.approx(0.8)
    assert dataclasses.replace(reply, confidence=None) == Reply("abcd ab", cut, (12, 4))
    assert one([Reply("a"), Reply("b")]).confidence is None


def page() -> str:
    """Forty lines over the whole page, so that every block has many; in base64."""
    image = Image.new("RGB", (1190, 1684), "white")
    draw, face = ImageDraw.Draw(image), font(20)
    for number in range(40):
        draw.text((40, 40 + 40 * number), " ".join(WORDS * 2), fill="black", font=face)
    coded = io.BytesIO()
    image.save(coded, "PNG")
    return base64.b64encode(coded.getvalue()).decode()


def test_the_demo_is_asked_for_bands_and_other_weights_for_blocks(service, vlm):
    def knows(demo: bool) -> bool:
        return service.client.get("/health/ready").json()["result"]["vlm"]["demo"] is demo

    def texts() -> list[str]:
        vlm.requests.clear()
        answer = service.parse(page(), visualize=False).json()["result"]["layoutParsingResults"][0]
        return [block["block_content"] for block in answer["prunedResult"]["parsing_res_list"]]

    wait_for(lambda: knows(False), what="weights that are not the demo's")
    blocks, asked = texts(), len(vlm.requests)
    usual, vlm.root = vlm.root, "/models/demo/PaddleOCR-VL"
    try:
        wait_for(lambda: knows(True), what="the demo's weights")
        in_bands = texts()
    finally:  # the service remembers what it knows
        vlm.root = usual
        wait_for(lambda: knows(False), what="other weights again")
    assert len(vlm.requests) > asked and len(in_bands) == len(blocks), "Markdown has as many blocks as before"
    assert all(text for text, whole in zip(in_bands, blocks) if whole)
