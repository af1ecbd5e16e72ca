# SPDX-License-Identifier: Apache-2.0
"""The layout model's picture as bytes: an engine gets what PaddleX's own steps would have given it, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from paddlex.inference.models.object_detection.processors import Normalize, Resize, ToBatch, ToCHWImage

from docparser.page.layout_model import predictor
from docparser.page.paddlex_private import in_bytes
from layout_wire import full_image
from tests.support.paths import DEMO_LAYOUT

KEYS = ("img_size", "img", "scale_factors")
PLAIN: dict[str, Any] = {"scale": 1 / 255, "mean": [0.0, 0.0, 0.0], "std": [1.0, 1.0, 1.0]}


def steps(*further: Any, **normalize: Any) -> list[Any]:
    """Those that PaddleX makes of PP-DocLayout's inference.yml, for a model of 80 x 80 pixels."""
    plain = [Resize(target_size=[80, 80]), Normalize(**{**PLAIN, **normalize}), ToCHWImage(), ToBatch(KEYS)]
    return [*plain[:-1], *further, plain[-1]]


def inputs(steps: list[Any], pages: list[np.ndarray]) -> list[np.ndarray]:
    datas: Any = [{"img": page} for page in pages]
    for step in steps:
        datas = step(datas)
    return datas


def test_bytes_become_the_same_numbers():
    chance = np.random.default_rng(1)
    pages = [chance.integers(0, 256, (height, width, 3), np.uint8) for height, width in ((200, 100), (80, 80))]
    pages.append(np.arange(256, dtype=np.uint8).repeat(75).reshape(80, 80, 3))  # every value
    small = in_bytes(steps())
    assert small is not None
    expected, found = inputs(steps(), pages), inputs(small, pages)
    assert found[1].dtype == np.uint8 and found[1].shape == (3, 3, 80, 80) and found[1].flags.c_contiguous
    for theirs, ours in zip(expected, found, strict=True):
        ours = full_image(ours)
        assert ours.dtype == theirs.dtype and np.array_equal(ours, theirs)


@pytest.mark.parametrize(
    "other", [steps(mean=[0.0, 0.5, 0.0]), steps(std=[1.0, 0.5, 1.0]), steps(scale=1.0), steps(lambda datas: datas)]
)
def test_a_picture_of_other_numbers_stays_paddlexs(other: list[Any]):
    assert in_bytes(other) is None


def test_the_demos_model_takes_bytes():
    """A model that does not is read all the same, four times as large; one line of the log is all that says so."""
    model = predictor("PP-DocLayoutV2", DEMO_LAYOUT, lambda arrays: [], {})
    assert in_bytes(model.pre_ops[1:]) is not None
