# SPDX-License-Identifier: Apache-2.0
"""The labels of training crops agree with what is drawn."""

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from demo_training.drawing.words import words
from demo_training.vlm.batches import tensors
from demo_training.vlm.crops import (
    CELL,
    IGNORE,
    MAX_PIXELS,
    MIN_PIXELS,
    PAPER,
    PATCH,
    SPACE,
    CropMaker,
    Stage,
    smart_resize,
)
from demo_training.vlm.tokenizer import prompt_ids

DEMO = Path(__file__).resolve().parents[4] / "models" / "demo" / "PaddleOCR-VL"
PAGE = Stage(1, lines=(1, 6), widths=(100, 900), natural=1.0, tokens=(100, 700), stacked=0.3, wider=0.1)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(DEMO / "tokenizer.json"))


def test_same_seed_same_batch(tokenizer):
    first, second = (CropMaker(tokenizer, 5).batch(PAGE) for _ in range(2))
    assert first.texts == second.texts
    assert np.array_equal(first.pixels, second.pixels)


def test_labels_agree_with_ink(tokenizer):
    """Where a letter is claimed there is contrast nearby; where paper is claimed there is almost none."""
    contrast: dict[str, list[float]] = {"letter": [], "paper": []}
    for seed in range(4):
        batch = CropMaker(tokenizer, seed).batch(PAGE)
        count, height, width, _ = batch.pixels.shape
        grey = batch.pixels.mean(-1).reshape(count, height // PATCH, PATCH, width // PATCH, PATCH)
        spread = (grey.max((2, 4)) - grey.min((2, 4))).reshape(count, -1)
        middle = batch.glyph[..., 1]
        contrast["letter"] += spread[(middle >= 0) & (middle < SPACE)].tolist()
        contrast["paper"] += spread[(batch.glyph == PAPER).all(-1)].tolist()
    assert np.median(contrast["letter"]) > 100
    assert np.median(contrast["paper"]) < 15


def test_tokens_are_found_in_reading_order(tokenizer):
    batch = CropMaker(tokenizer, 1).batch(Stage(1, lines=(1, 1), widths=(200, 500), natural=1.0, tokens=(100, 300)))
    across = batch.pixels.shape[2] // CELL
    for ids, cells, text in zip(batch.tokens, batch.cells, batch.texts):
        assert tokenizer.decode(ids) == text
        columns = [first % across for first, _ in cells]
        assert columns == sorted(columns)
        assert max(max(pair) for pair in cells) < batch.pixels.shape[1] * batch.pixels.shape[2] // CELL**2


def test_splits_share_no_word_of_the_list():
    assert not set(words("train")) & set(words("heldout"))
    with pytest.raises(ValueError, match="split 'test' is unknown"):
        words("test")


@pytest.mark.parametrize("height, width", [(30, 800), (3, 3), (1200, 1000), (28, 5000), (2000, 3000)])
def test_sizes_stay_in_bounds(height, width):
    h, w = smart_resize(height, width)
    assert h % CELL == w % CELL == 0
    assert MIN_PIXELS <= h * w <= MAX_PIXELS


def test_targets_line_up(tokenizer):
    batch = CropMaker(tokenizer, 2).batch(PAGE)
    _, tail = prompt_ids(tokenizer)
    made = tensors(batch, tail)
    for row, ids in enumerate(batch.tokens):
        asked = made["targets"][row] != IGNORE
        assert made["targets"][row][asked].tolist() == [*ids, 2]
        # Each asked position holds the token before the one it is asked for.
        assert made["after"][row][asked].tolist() == [tail[-1], *ids]
