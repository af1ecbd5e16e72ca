# SPDX-License-Identifier: Apache-2.0
"""Stray lines go to the block above; rules, pictures and what other blocks hold do not."""

import numpy as np
import paddle
import pytest

from demo_training.layout.stray_lines import adopt_stray_lines, ink_map


def page(*prints: tuple[int, int, int, int]) -> paddle.Tensor:
    """Paper with striped print in each (x1, y1, x2, y2)."""
    grey = np.full((1, 1, 800, 800), 0.96, np.float32)
    for x1, y1, x2, y2 in prints:
        grey[0, 0, y1:y2, x1:x2:4] = 0.1
        grey[0, 0, y1:y2, x1 + 1 : x2 : 4] = 0.1
    return ink_map(paddle.to_tensor(grey))


def adopt(ink, *boxes, wanting=None) -> np.ndarray:
    placed = paddle.to_tensor(np.array([boxes], np.float32))
    ones = paddle.ones(placed.shape[:2])
    wanting = ones if wanting is None else paddle.to_tensor([wanting], dtype="float32")
    return adopt_stray_lines(ink, placed, ones, wanting, paddle.full([1, 1], 2.0)).numpy()[0]


PARAGRAPH = (98, 98, 702, 132)


def test_a_short_last_line_is_taken_in():
    ink = page((100, 100, 700, 110), (100, 120, 700, 130), (100, 140, 220, 150))
    assert adopt(ink, PARAGRAPH)[0].tolist() == pytest.approx([98, 98, 702, 152], abs=1)


def test_a_block_that_wants_none_stays():
    ink = page((100, 100, 700, 130), (100, 140, 220, 150))
    assert adopt(ink, PARAGRAPH, wanting=[0.0])[0].tolist() == list(PARAGRAPH)


@pytest.mark.parametrize(
    "below",
    [
        pytest.param((100, 140, 700, 142), id="a rule"),
        pytest.param((100, 140, 700, 260), id="a picture"),
        pytest.param((100, 160, 700, 170), id="something far below"),
        pytest.param((10, 140, 60, 150), id="print beside the block"),
    ],
)
def test_other_ink_is_left_alone(below):
    assert adopt(page((100, 100, 700, 130), below), PARAGRAPH)[0].tolist() == list(PARAGRAPH)


def test_what_another_block_holds_is_left_alone():
    ink = page((100, 100, 700, 130), (100, 140, 220, 150))
    found = adopt(ink, PARAGRAPH, (98, 138, 222, 152))
    assert found.tolist() == [list(PARAGRAPH), [98, 138, 222, 152]]


def test_numbers_beside_a_list_are_no_lines_of_the_paragraph_above():
    items = [(130, 140, 700, 150), (130, 160, 600, 170)]
    numbers = [(104, top, 114, bottom) for _, top, _, bottom in items]
    ink = page((100, 100, 700, 130), *items, *numbers)
    assert adopt(ink, PARAGRAPH, (128, 138, 702, 172))[0].tolist() == list(PARAGRAPH)
