# SPDX-License-Identifier: Apache-2.0
"""A line in two boxes stays in one; margins, columns and what would lose all of its height are left alone."""

import numpy as np
import paddle
import pytest

from demo_training.layout.overlaps import LEAST, part_overlapping


def part(*boxes, wanting=None) -> list[list[float]]:
    placed = paddle.to_tensor(np.array([boxes, boxes], np.float32))  # two pages, alike
    marks = np.ones((2, len(boxes)), np.float32) if wanting is None else np.array([wanting, wanting], np.float32)
    parted = part_overlapping(placed, paddle.to_tensor(marks)).numpy()
    assert np.array_equal(parted[0], parted[1])
    return parted[0].tolist()


UPPER, LOWER = [100, 100, 500, 160], [100, 140, 500, 220]


def test_the_lower_of_two_loses_the_line():
    assert part(UPPER, LOWER) == [UPPER, [100, 160 - LEAST / 2, 500, 220]]
    assert part(LOWER, UPPER) == [[100, 160 - LEAST / 2, 500, 220], UPPER], "in any order"


def test_the_narrower_of_two_loses_it():
    code, text = [140, 100, 300, 160], [100, 140, 500, 220]
    assert part(code, text) == [[140, 100, 300, 140 + LEAST / 2], text]
    text, code = [100, 100, 500, 160], [140, 140, 300, 220]
    assert part(text, code) == [text, [140, 160 - LEAST / 2, 300, 220]]


def test_three_in_a_row():
    found = part([100, 100, 500, 160], [100, 140, 500, 220], [100, 200, 500, 300])
    assert found == [[100, 100, 500, 160], [100, 157, 500, 220], [100, 217, 500, 300]]


@pytest.mark.parametrize(
    "second",
    [
        pytest.param([100, 155, 500, 220], id="margins"),
        pytest.param([400, 140, 700, 220], id="neither within the other"),
        pytest.param([520, 140, 900, 220], id="the next column"),
        pytest.param([100, 120, 500, 150], id="inside"),
        pytest.param([100, 140, 500, 166], id="nothing would be left"),
    ],
)
def test_others_stay(second: list[float]):
    assert part(UPPER, second) == [UPPER, second]


def test_pictures_stay():
    assert part(UPPER, LOWER, wanting=[1.0, 0.0]) == [UPPER, LOWER]
