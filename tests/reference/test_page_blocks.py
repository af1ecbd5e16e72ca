# SPDX-License-Identifier: Apache-2.0
"""Blocks are cut out of pages where a parser finds them (simulated here; tests/e2e asks a real one)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reference.page_blocks import blocks_of
from tests.support.simulated_parser import SimulatedParser
from tool_errors import ServiceError, UsageError

FOUND = [
    ("doc_title", (10, 20, 110, 50)),
    ("table", (0, 60, 200, 120)),
    ("image", (20, 130, 90, 180)),
    ("text", (-4.4, 150.6, 260, 320)),  # beyond the page
    ("display_formula", (5, 5, 60, 15)),
    ("text", (300, 10, 340, 40)),  # off it
    ("chart", (1, 1, 9, 9)),
]


class Parser(SimulatedParser):
    def result(self, number: int, body: dict) -> dict:
        blocks = [
            {"block_label": label, "block_content": "", "block_bbox": list(box), "block_id": at}
            for at, (label, box) in enumerate(FOUND)
        ]
        entry = {"prunedResult": {"parsing_res_list": blocks}, "markdown": {"text": ""}}
        return {"layoutParsingResults": [entry], "dataInfo": {"type": "image"}}


@pytest.fixture
def parser() -> Iterator[Parser]:
    simulated = Parser()
    yield simulated
    simulated.close()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    pixels = np.arange(300 * 250 * 3, dtype=np.uint32).astype(np.uint8).reshape(300, 250, 3)
    Image.fromarray(pixels).save(tmp_path / "page.png")
    return tmp_path / "page.png"


@pytest.mark.parametrize(
    ("task", "numbers"),
    [("ocr", [0, 3]), ("table", [1]), ("formula", [4]), ("chart", [6]), ("seal", [])],
)
def test_a_task_gets_the_blocks_that_it_is_for(parser: Parser, page: Path, task: str, numbers: list[int]):
    found = blocks_of([page, page], parser.url, task)
    assert [name for name, _ in found] == [f"page.png, block {number}" for number in numbers] * 2
    pixels = np.asarray(Image.open(page))
    for (_, picture), number in zip(found, numbers):
        left, top, right, bottom = (round(side) for side in FOUND[number][1])
        assert np.array_equal(picture, pixels[max(0, top) : bottom, max(0, left) : right])


def test_a_key_is_sent_and_what_went_wrong_is_said(
    parser: Parser, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    parser.key = "a key"
    with pytest.raises(ServiceError, match="HTTP 401: .*; put the key into PARSER_API_KEY"):
        blocks_of([page], parser.url, "ocr")
    monkeypatch.setenv("PARSER_API_KEY", "a key")
    assert len(blocks_of([page], f"{parser.url}/", "ocr")) == 2
    with pytest.raises(UsageError, match="no such file"):
        blocks_of([tmp_path / "absent.png"], parser.url, "ocr")
    parser.always, parser.says = 503, "The VLM is away."
    with pytest.raises(ServiceError, match="HTTP 503.*The VLM is away"):
        blocks_of([page], parser.url, "ocr")
    parser.close()
    with pytest.raises(ServiceError, match="cannot be reached.*--parser names it"):
        blocks_of([page], parser.url, "ocr")
