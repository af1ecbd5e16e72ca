# SPDX-License-Identifier: Apache-2.0
"""The option `places` through the running service: by ink, by the page's own text, over joined pages, in chunks; and
what is refused."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from PIL import Image, ImageDraw

from tests.parser.born_digital import DOCUMENT, TITLE, WORDS
from tests.support import samples
from tests.support.fonts import font
from tests.support.simulated_vlm import prompt_of

PRINT = ("Nobody knows who dug the well in the", "yard, and it has water in all summers.")
ROW = "<fcel>North<fcel>12<nl>"


def page() -> Image.Image:
    """Print where the simulated layout model sees a text (tests/support/simulated_layout.py), and a table of rules."""
    image = samples.picture()
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(PRINT):
        draw.text((140, 340 + 50 * number), line, font=font(36), fill="black")
    for row in range(3):
        draw.line((140, 1080 + 60 * row, 1000, 1080 + 60 * row), fill="black", width=2)
        if row < 2:
            draw.text((160, 1090 + 60 * row), "North", font=font(30), fill="black")
            draw.text((620, 1090 + 60 * row), "12", font=font(30), fill="black")
    for left in (140, 600, 1000):
        draw.line((left, 1080, left, 1200), fill="black", width=2)
    return image


FILE = samples.encode(samples.save(page(), "PNG"))


@pytest.fixture
def reads(vlm):
    def answer(request: dict[str, Any], number: int) -> str:
        return ROW * 2 if prompt_of(request).startswith("Table") else " ".join(PRINT)

    vlm.answer = answer
    return vlm


def found(entry: dict[str, Any], label: str) -> dict[str, Any]:
    blocks = entry["prunedResult"]["parsing_res_list"]
    number = next(block["block_id"] for block in blocks if block["block_label"] == label)
    (said,) = (said for said in entry["places"] if said["block_id"] == number)
    return said


def test_words_and_cells_are_said_with_their_places(service, reads):
    entry = service.page(FILE, places="words")
    said = found(entry, "text")
    assert said["source"] == "ink"
    assert [word["text"] for word in said["words"]] == " ".join(PRINT).split()
    draw, left = ImageDraw.Draw(page()), 140.0
    for word in said["words"][:8]:
        box = draw.textbbox((left, 340), word["text"], font=font(36))
        assert max(abs(one - other) for one, other in zip(word["bbox"], box, strict=True)) <= 5
        left = 140 + font(36).getlength(PRINT[0][: word["end"] + 1])
    cells = found(entry, "table")["cells"]
    assert [(cell["row"], cell["column"], cell["text"]) for cell in cells] == [
        (0, 0, "North"), (0, 1, "12"), (1, 0, "North"), (1, 1, "12")
    ]  # fmt: skip
    assert max(abs(one - other) for one, other in zip(cells[3]["bbox"], (600, 1140, 1000, 1200), strict=True)) <= 4
    labels = {block["block_id"]: block["block_label"] for block in entry["prunedResult"]["parsing_res_list"]}
    assert {labels[said["block_id"]] for said in entry["places"]} <= {"text", "table"}, "no print, no places"


def test_lines_and_cells_alone(service, reads):
    assert [line["text"] for line in found(service.page(FILE, places="lines"), "text")["lines"]] == list(PRINT)
    entry = service.page(FILE, places="cells")
    assert [said.keys() for said in entry["places"]] == [{"block_id", "source", "cells"}]


def test_without_it_the_answer_is_as_it_was(service, reads):
    pages = [service.page(FILE, **options) for options in ({}, {"places": None})]
    assert pages[0] == pages[1] and "places" not in pages[0]
    asked = service.page(FILE, places="lines")
    del asked["places"]
    assert asked == pages[0]


def test_the_pages_own_words_where_they_are_asked_for_and_true(service, vlm):
    by_page = service.page(DOCUMENT, places="words", textLayer="prefer")
    assert found(by_page, "doc_title")["source"] == found(by_page, "text")["source"] == "page"
    assert [word["text"] for word in found(by_page, "text")["words"]] == WORDS.split()
    vlm.answer = lambda request, number: TITLE
    by_ink = found(service.page(DOCUMENT, places="words"), "doc_title")
    assert by_ink["source"] == "ink"
    for ink, own in zip(by_ink["words"], found(by_page, "doc_title")["words"], strict=True):
        assert ink["text"] == own["text"]
        assert max(abs(one - other) for one, other in zip(ink["bbox"], own["bbox"], strict=True)) <= 3


def test_pages_that_are_joined_have_the_places_of_each(service, reads):
    alone = service.page(FILE, places="words")
    pages = samples.save(page(), "TIFF", save_all=True, append_images=[page()], compression="tiff_lzw")
    answer = service.parse(samples.encode(pages), places="words", visualize=False, restructurePages=True)
    assert answer.status_code == 200, answer.text
    entries = answer.json()["result"]["layoutParsingResults"]
    assert [found(entry, "text")["words"] for entry in entries] == [found(alone, "text")["words"]] * 2


def test_chunks_have_them(service, reads):
    files = {"file": ("wells.png", base64.b64decode(FILE))}
    options = {"options": json.dumps({"places": "words"})}
    lines = service.client.post("/parse", params={"format": "chunks"}, files=files, data=options).text.splitlines()
    chunks = [json.loads(line) for line in lines]
    said = [chunk["text"][one["start"] : one["end"]] for chunk in chunks for one in chunk["places"]]
    assert PRINT[0].split()[3] in said and "North" in said


@pytest.mark.parametrize("wrong", ["letters", "Words", "", 1, True, ["words"], {"words": True}])
def test_what_is_none_of_them_is_refused(service, vlm, wrong):
    answer = service.parse(FILE, places=wrong)
    assert answer.status_code == 422
    assert answer.json()["errorMsg"].startswith("places: Input should be 'lines', 'words' or 'cells'")
    assert not vlm.requests, "nothing was read"


def test_a_form_with_a_wrong_one_is_refused(service):
    options = {"options": json.dumps({"places": "letters"})}
    answer = service.client.post("/parse", files={"file": ("a.png", base64.b64decode(FILE))}, data=options)
    assert answer.status_code == 422 and "places" in answer.json()["errorMsg"]
