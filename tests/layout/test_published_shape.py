# SPDX-License-Identifier: Apache-2.0
"""PaddleX's and transformers' classes of the published layout model are one function of one set of weights."""

import json
import os
from pathlib import Path

import pytest

from tests.support.processes import run_module


@pytest.mark.skipif("LAYOUT_SHAPE" not in os.environ, reason="half a minute of processor time; LAYOUT_SHAPE=1 runs it")
def test_paddle_and_transformers_agree(tmp_path):
    run_module("parser", "demo_training.layout.published_shape", tmp_path, "--no-static")
    found = json.loads(
        run_module("reference", Path(__file__).with_name("published_in_torch.py"), tmp_path).splitlines()[-1]
    )
    # The names map one to one, but for two embeddings that transformers holds and does not use.
    assert set(found["missing"]) <= {f"reading_order.encoder.rel_pos_{side}_bias.weight" for side in "xy"}, found
    assert not found["unexpected"], found
    # Logits have a standard deviation of about 1, boxes lie in 0..1; queries in another order differ by more than 0.5.
    assert found["logits"] < 2e-3 and found["boxes"] < 5e-4, found
    assert found["spread"] > 0.5, found
    # The only difference: these lie at the bound of 0.01 itself, and roundings decide.
    assert found["differing_anchors"] <= 97, found
