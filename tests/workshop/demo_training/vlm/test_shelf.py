# SPDX-License-Identifier: Apache-2.0
"""Crops of printed pages: their labels, sizes and words, and labels of small print."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tokenizers import Tokenizer

from demo_training.drawing.block import Line, read
from demo_training.vlm.crops import CELL, IGNORE, MAX_PIXELS, SPACE, CropMaker
from demo_training.vlm.shelf import MOST_LINES, Shelf
from demo_training.vlm.stages import REFINE

DEMO = Path(__file__).resolve().parents[4] / "models" / "demo" / "PaddleOCR-VL"


def line(text: str, baseline: float, joined: bool = False, x_height: float = 9.0) -> dict:
    lefts = [100.0 + 10 * number for number in range(len(text) + 1)]
    return {"text": text, "lefts": lefts, "baseline": baseline, "x_height": x_height, "joined": joined}


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    for page in range(3):
        Image.new("RGB", (1190, 1684), "white").save(tmp_path / f"tex-{page}.png")
        part = [line("an exam-", 200, joined=True), line("ple of it", 224), line("ends here", 248)]
        long = [line(f"line {number:02d} of many", 400 + 24 * number) for number in range(30)]
        runs = [[part, long]]
        (tmp_path / f"tex-{page}.json").write_text(json.dumps({"size": [1190, 1684], "runs": runs}))
    return tmp_path


def test_a_parted_word_is_read_as_one():
    lines = [Line("an exam-", (), 0, 1, True), Line("ple of", (), 0, 1), Line("it-", (), 0, 1, True)]
    assert read(lines) == "an example of it-"
    assert read(lines[:1]) == "an exam-" and read([]) == ""


def test_places_hold_a_few_lines_that_follow_each_other(shelf):
    seen = set()
    for cutting in Shelf(shelf, random.Random(1)).look(300):
        image, lines = cutting.cut()
        assert 1 <= len(lines) <= MOST_LINES and image.size == cutting.size
        assert [b.baseline - a.baseline for a, b in zip(lines, lines[1:])] == [24.0] * (len(lines) - 1)
        for each in lines:
            assert 0 <= each.baseline <= image.height and -2 <= each.lefts[0] and each.lefts[-1] <= image.width + 2
        seen.add(len(lines))
    assert {1, 3, MOST_LINES} <= seen


def test_each_token_is_shown_by_the_cells_of_its_letters(shelf):
    maker = CropMaker(Tokenizer.from_file(str(DEMO / "tokenizer.json")), 3, shelf=shelf)
    stage = dataclasses.replace(REFINE["printed"], printed=1.0)
    parted = 0
    for _ in range(40):
        batch = maker.batch(stage)
        _, height, width, _ = batch.pixels.shape
        assert height % CELL == width % CELL == 0 and height * width <= MAX_PIXELS
        for text, tokens, cells in zip(batch.texts, batch.tokens, batch.cells):
            assert len(tokens) == len(cells)
            rows = [first // (width // CELL) for first, _ in cells]
            assert rows == sorted(rows), "tokens follow the lines from top to bottom"
            parted += "example" in text
        assert ((batch.glyph[..., 1] >= 0) & (batch.glyph[..., 1] < SPACE)).any(axis=1).all(), "letters have labels"
    assert parted


def test_print_smaller_than_a_patch_has_labels(shelf):
    maker = CropMaker(Tokenizer.from_file(str(DEMO / "tokenizer.json")), 3, shelf=shelf)
    labels = np.full((1, 8 * 40, 3), 95, np.int64)
    batch = dataclasses.replace(
        maker.batch(dataclasses.replace(REFINE["printed"], printed=1.0)),
        glyph=labels,
        context=np.full((1, 8 * 40, 2), IGNORE),
        line=np.full((1, 8 * 40), IGNORE),
        texts=["tiny print here"],
        tokens=[],
        cells=[],
    )
    lefts = tuple(10.0 + 5 * number for number in range(16))
    maker._label(batch, 0, [Line("tiny print here", lefts, 21.0, 3.0)], 8, 40, (1.0, 1.0))
    assert (labels[..., 1] < SPACE).sum() > 3


def test_stages_of_printed_pages_need_a_shelf(tmp_path):
    with pytest.raises(FileNotFoundError, match="typesetters.make"):
        Shelf(tmp_path, random.Random(1))
    maker = CropMaker(Tokenizer.from_file(str(DEMO / "tokenizer.json")), 3)
    with pytest.raises(ValueError, match="--shelf"):
        maker.batch(dataclasses.replace(REFINE["printed"], printed=1.0))
