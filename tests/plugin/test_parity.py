# SPDX-License-Identifier: Apache-2.0
"""The plugin against the independent implementation in transformers >= 5, in float32 with the same weights."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from reference.cases import Case, save_cases
from tests.plugin.agreement import check_logits
from tests.plugin.drawings import drawn
from tests.plugin.programs import run_python
from vlm_models.paddleocr_vl.image_processing import merge_block_order

IMAGE = "<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>"

pytestmark = pytest.mark.model


def case(answer: str, *sizes: tuple[int, int], min_pixels: int = 112896, max_pixels: int = 1003520) -> Case:
    """A prompt with images of these (height, width), and the beginning of an answer, so that text follows them."""
    prompt = f"<|begin_of_sentence|>User: {IMAGE * len(sizes)}OCR:\nAssistant: {answer}"
    images = [drawn(i + len(sizes), *size) for i, size in enumerate(sizes)]
    return Case(prompt, images, min_pixels, max_pixels)


SEVERAL = [
    case("The quick brown fox", (40, 600)),
    case("Total: 42.00 EUR", (90, 700), (400, 300), (90, 700), (3, 3), (900, 60)),
    case("two equal neighbours", (200, 300), (200, 300), (64, 64)),
    case("no image at all"),
]
# The published vocabulary makes logits large, so fewer positions.
SMALLER = {"min_pixels": 28 * 28 * 12, "max_pixels": 28 * 28 * 40}
FULL = [
    case("The quick", (40, 600), **SMALLER),
    case("Total: 42.00", (90, 700), (400, 300), (90, 700), (3, 3), **SMALLER),
    case("no image at all"),
]
LARGE = [case("A whole page of text", (1400, 1000)), case("and more", (1000, 2000), max_pixels=2822400)]


def compare(directory: Path, cases: list[Case], reference: Path, folder: Path) -> None:
    """Run both sides and check inputs and logits; prints the figures."""
    save_cases(folder / "cases.safetensors", cases)
    files = {side: folder / f"{side}.safetensors" for side in ("plugin", "reference")}
    shared = ("--model", directory, "--cases", folder / "cases.safetensors", "--out")
    run_python(sys.executable, "-m", "plugin_logits", *shared, files["plugin"])
    run_python(reference, "-m", "random_checkpoints.logits", *shared, files["reference"])
    ours, theirs = (load_file(files[side]) for side in ("plugin", "reference"))
    for index in range(len(cases)):
        check_inputs(ours, theirs, index)
        check_logits(ours[f"{index}.logits"], theirs[f"{index}.logits"], f"case {index}")


def check_inputs(ours: dict, theirs: dict, index: int) -> None:
    """Token ids, grids and pixel values are equal, bit for bit."""
    torch.testing.assert_close(ours[f"{index}.input_ids"], theirs[f"{index}.input_ids"], rtol=0, atol=0)
    if f"{index}.pixel_values" not in theirs:
        return
    grids = theirs[f"{index}.image_grid_thw"]
    torch.testing.assert_close(ours[f"{index}.image_grid_thw"], grids, rtol=0, atol=0)
    start = 0
    for _, rows, columns in grids.tolist():
        end = start + rows * columns
        expected = theirs[f"{index}.pixel_values"][start:end].flatten(1)[merge_block_order(rows, columns, 2)]
        torch.testing.assert_close(ours[f"{index}.pixel_values"][start:end], expected, rtol=0, atol=0)
        start = end


@pytest.mark.long
def test_published_layer_shapes(full_shapes, reference_python, tmp_path):
    compare(full_shapes, FULL, reference_python, tmp_path)


def test_demo_weights(demo_weights, reference_python, tmp_path):
    compare(demo_weights, SEVERAL, reference_python, tmp_path)


@pytest.mark.long
def test_demo_weights_on_whole_pages(demo_weights, reference_python, tmp_path):
    compare(demo_weights, LARGE, reference_python, tmp_path)
