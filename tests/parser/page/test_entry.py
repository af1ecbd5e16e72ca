# SPDX-License-Identifier: Apache-2.0
"""A page's entry: its members, and its pictures as they are sent. PaddleX's Markdown is simulated."""

from __future__ import annotations

import base64
import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from docparser.contract.schemas import ParseOptions
from docparser.page import entry
from docparser.page.frozen import Known, Page, put_images_back, with_own_pictures
from docparser.page.places import _widen, ground_of_table
from docparser.page.provenance import Certainty, Provenance
from docparser.places.box import Grid, GridCell, PixelBox
from docparser.places.grids import grid

SIDE = 20


@pytest.fixture
def markdown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, bool]]:
    """What PaddleX is asked for."""
    asked: list[tuple[bool, bool]] = []
    picture = Image.new("RGB", (80, 40), "red")

    def simulated(result: Any, *, pretty: bool, formula_numbers: bool) -> dict[str, Any]:
        asked.append((pretty, formula_numbers))
        return {"markdown_texts": "text", "markdown_images": {"a.jpg": picture, "b.jpg": None}}

    monkeypatch.setattr(entry, "markdown_of", simulated)
    monkeypatch.setattr(entry, "places_of", lambda blocks, grounds, places: [(grounds, places)])
    monkeypatch.setattr(entry, "docx_export", lambda result, number: {"fileName": number})
    return asked


def page(*known: Known, **rest: Any) -> Page:
    blocks = [{"block_id": number + 4, "block_content": f"## a\n {number}"} for number in range(2)]
    result: Any = Result(json={"res": {"input_path": "/tmp/x", "parsing_res_list": blocks}})
    return Page(result, list(known or [Known(), Known()]), **rest)


class Result(SimpleNamespace):
    """PaddleX's: ``json`` has the blocks' texts with Markdown's marks, where those were asked for."""

    def __getitem__(self, name: str) -> Any:
        return {"parsing_res_list": [SimpleNamespace(content=f"a\n {number}") for number in range(2)]}[name]


def made(of: Page, **options: Any) -> Any:
    return entry.page_entry(of, 7, ParseOptions(**options), max_side=SIDE)


def test_an_entry_has_what_is_known_of_its_blocks(markdown: list[tuple[bool, bool]]):
    known = Known(), Known(Provenance(Certainty(0.5, True)), 2, level=2)
    said = made(page(*known, outlined=True), returnMarkdownImages=False, prettifyMarkdown=False, showFormulaNumber=True)
    assert list(said) == ["prunedResult", "markdown", "tableHeads", "outline"] and markdown == [(False, True)]
    first, second = said["prunedResult"]["parsing_res_list"]
    assert "input_path" not in said["prunedResult"] and "confidence" not in first
    assert (second["confidence"], second["doubtful"]) == (0.5, True)
    assert said["tableHeads"] == [{"block_id": 5, "rows": 2}]
    assert said["outline"] == [{"block_id": 5, "level": 2, "text": "a 1"}] and said["markdown"] == {"text": "text"}


@pytest.mark.parametrize("asked", [None, "words"])
def test_places_are_said_where_they_were_asked_for(markdown: Any, asked: Any):
    said = made(page(Known(ground={"ink": []}), Known()), places=asked, outputFormats=["docx"])
    assert said.get("places") == ([([{"ink": []}, None], "words")] if asked else None)
    assert said["exports"] == {"docx": {"fileName": 7}}
    assert list(said["markdown"]["images"]) == ["a.jpg"] and markdown == [(True, False)]


@pytest.mark.parametrize(
    ("size", "sent"), [((80, 40), (20, 10)), ((40, 80), (10, 20)), ((20, 5), (20, 5)), ((400, 2), (20, 1))]
)
def test_pictures_are_made_as_small_as_they_may_be_and_keep_their_colours(size: tuple[int, int], sent: tuple[int, int]):
    blue_first = np.zeros((size[1], size[0], 3), np.uint8)
    blue_first[:, :, 2] = 255
    for image in (blue_first, Image.new("RGB", size, "red")):
        shown = Image.open(io.BytesIO(base64.b64decode(entry.encode_jpeg(image, SIDE))))
        red, green, blue = shown.getpixel((0, 0))  # type: ignore[misc]  # of RGB
        assert shown.size == sent and red > 240 and green < 16 and blue < 16
    both = entry.pictures({"layout": blue_first, "none": None}, blue_first, max_side=SIDE)
    assert list(both) == ["inputImage", "outputImages"] and list(both["outputImages"]) == ["layout"]


def test_pictures_in_the_same_place_of_pages_that_become_one_are_two():
    box = {"block_label": "image", "block_bbox": [1, 2, 3, 4], "block_content": ""}
    path = "imgs/img_in_image_box_1_2_3_4.jpg"
    text = {"block_label": "table", "block_bbox": [0, 0, 9, 9], "block_content": f"<img src='{path}'>"}
    first, second = with_own_pictures([({"parsing_res_list": [box, text]}, {path: "x"})] * 2)
    now = path.replace("imgs/", "imgs/page_0002_")
    assert first == ({"parsing_res_list": [box, text]}, {path: "x"}) and second[1] == {now: "x"}
    picture, table = second[0]["parsing_res_list"]
    assert picture["image"] == {"path": now, "img": None} and table["block_content"] == f"<img src='{now}'>"


@pytest.mark.parametrize(("kind", "read"), [("PNG", True), ("JPEG", True), ("TIFF", False), ("GIF", False)])
def test_pictures_of_kinds_that_answers_have_are_put_back(kind: str, read: bool):
    content = io.BytesIO()
    Image.new("RGB", (6, 3), "red").save(content, kind)
    block = SimpleNamespace(image={"path": "one", "img": None})
    put_images_back({"parsing_res_list": [block]}, {"one": base64.b64encode(content.getvalue()).decode()})
    assert bool(block.image) == read


def test_a_picture_of_more_pixels_than_any_is_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 8)
    block = SimpleNamespace(image={"path": "one", "img": None})
    sent = entry.encode_jpeg(Image.new("RGB", (6, 3)), SIDE)
    put_images_back({"parsing_res_list": [block]}, {"one": sent})
    assert block.image is None


def test_pictures_that_a_client_sent_are_put_back_where_they_can_be_read():
    good = entry.encode_jpeg(Image.new("RGB", (6, 3), "red"), SIDE)
    images = {"good": good, "bad": "AAAA", "url": "https://example.org/a.png", "kept": good}
    blocks = [SimpleNamespace(image={"path": name, "img": None}) for name in ("good", "bad", "url", "missing")]
    blocks += [SimpleNamespace(image=None), SimpleNamespace(image={"path": "kept", "img": "own"})]
    put_images_back({"parsing_res_list": blocks}, images)
    assert blocks[0].image["img"].size == (6, 3) and [block.image for block in blocks[1:5]] == [None] * 4
    assert blocks[5].image == {"path": "kept", "img": "own"}


def test_rows_and_columns_of_a_table_stand_on_the_page(monkeypatch: pytest.MonkeyPatch):
    cells = (
        GridCell(0, 0, 1, 2, PixelBox(0, 0, 20, 5), ()),
        GridCell(1, 0, 1, 1, PixelBox(0, 6, 9, 12), ()),
        GridCell(1, 1, 1, 1, PixelBox(10, 7, 20, 11), ()),
    )
    grey, seen = np.zeros((60, 60), np.uint8), []

    def find(picture: np.ndarray) -> Grid:
        seen.append(picture.shape)
        return Grid(2, 2, 5.0, cells)

    monkeypatch.setattr(grid, "find", find)
    found = ground_of_table(grey, (-5, 10, 30, 40))
    assert seen == [(30, 30)]
    assert found == {"rows": [[10, 15], [16, 22]], "columns": [[0, 9], [10, 20]]}
    alone = Grid(1, 2, 5.0, cells[:1])
    for none in (alone, None):  # a column of spanning cells alone; no grid
        monkeypatch.setattr(grid, "find", lambda picture, none=none: none)
        assert ground_of_table(grey, (0, 0, 9, 9)) is None
    ends: dict[int, list[int]] = {}
    for low, high in ((5, 9), (7, 12), (3, 4)):
        _widen(ends, 1, low, high)
    assert ends == {1: [3, 12]}
