# SPDX-License-Identifier: Apache-2.0
"""Lines that two boxes hold, given to one of them: by tensor operations, which become part of the inference graph.

Where the detector is in doubt whether a line ends one paragraph or begins the next, both boxes may hold it, and its
text would come twice.
"""

from __future__ import annotations

import paddle
from paddle import Tensor

LEAST = 6.0  # px that two boxes share before it is more than their margins
REST = 8.0  # px, height of the least that stays of a box


def part_overlapping(boxes: Tensor, wanting: Tensor) -> Tensor:
    """``boxes`` [N, K, 4] (px of the 800x800 input), with overlaps of those ``wanting`` [N, K] given to one of them.

    Where two boxes overlap, one above the other, the one whose width lies within the other's loses the shared part;
    if both do, the lower one. A box that would become less than ``REST`` high stays as it is."""
    left, top, right, bottom = (boxes[:, :, index] for index in range(4))

    def pairs(values: Tensor) -> tuple[Tensor, Tensor]:
        """Of the upper box, in rows, and of the lower one, in columns."""
        return values.unsqueeze(2), values.unsqueeze(1)

    (left_a, left_b), (top_a, top_b), (right_a, right_b), (bottom_a, bottom_b) = map(pairs, (left, top, right, bottom))
    both = (wanting.unsqueeze(2) * wanting.unsqueeze(1)) > 0.5
    stacked = (top_a < top_b).logical_and(bottom_a < bottom_b).logical_and(bottom_a - top_b > LEAST)
    stacked = stacked.logical_and(both)
    lower_within = (left_b > left_a - LEAST).logical_and(right_b < right_a + LEAST)
    upper_within = (left_a > left_b - LEAST).logical_and(right_a < right_b + LEAST)
    cut_lower = stacked.logical_and(lower_within).logical_and(bottom_b - bottom_a > REST)
    cut_upper = stacked.logical_and(upper_within).logical_and(lower_within.logical_not())
    cut_upper = cut_upper.logical_and(top_b - top_a > REST)
    far = paddle.full_like(bottom_a - top_b, 1e4)
    # The margin of the box that keeps the lines ends where the other one's begins.
    new_top = paddle.maximum(top, paddle.where(cut_lower, bottom_a.expand_as(far), -far).max(1) - LEAST / 2)
    new_bottom = paddle.minimum(bottom, paddle.where(cut_upper, top_b.expand_as(far), far).min(2) + LEAST / 2)
    return paddle.stack([left, new_top, right, new_bottom], 2)
