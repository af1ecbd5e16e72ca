# SPDX-License-Identifier: Apache-2.0
"""Lines of print that no box covers, given to the block right above them.

The detector's commonest fault is to end a paragraph before a short last line, which would lose its text. Ink is there
to be seen, so it is looked for: by tensor operations, which become part of the inference graph.
"""

from __future__ import annotations

import paddle
from paddle import Tensor
from paddle.nn import functional as F

SIZE = 800
REACH = 16.0  # px below a box within which a stray line must begin
LOWEST, HIGHEST = 4.0, 34.0  # px, height of a line; thinner are rules, higher are pictures
CONTRAST = 0.2  # of full scale, between ink and the lightest paper around it


def ink_map(grey: Tensor) -> Tensor:
    """1.0 where ``grey`` [N, 1, 800, 800] (0..1) is darker than its surroundings; [N, 800, 800]."""
    paper = F.max_pool2d(grey, 17, 1, 8)
    return (paper - grey > CONTRAST).astype("float32").squeeze(1)


def adopt_stray_lines(ink: Tensor, boxes: Tensor, valid: Tensor, wanting: Tensor, margin: Tensor) -> Tensor:
    """``boxes`` [N, K, 4] (px of the 800x800 input) lengthened downward over a stray line each, where there is one.

    ``valid`` [N, K] boxes cover what they hold; ``wanting`` [N, K] ones may be lengthened; ``margin`` [N, 1] px are
    kept below the line.
    """
    place = paddle.arange(SIZE, dtype="float32") + 0.5

    def within(low: Tensor, high: Tensor) -> Tensor:
        return ((place > low.unsqueeze(2)).logical_and(place < high.unsqueeze(2))).astype("float32")

    x1, y1, x2, y2 = (boxes[:, :, index] for index in range(4))
    columns = within(x1, x2)
    covered = paddle.matmul((within(y1, y2) * valid.unsqueeze(2)).transpose([0, 2, 1]), columns)
    stray = ink * (covered < 0.5).astype("float32")
    # Stray ink in each row of the page between the sides of each box. Where another box holds most of the row, what is
    # beside it belongs to that one: the number of an item.
    alone, all_ink = (paddle.matmul(columns, one.transpose([0, 2, 1])) for one in (stray, ink))
    printed = ((alone > 1.5).logical_and(alone > 0.5 * all_ink)).astype("float32")
    far = paddle.full_like(printed, 2.0 * SIZE)
    near = (place >= y2.unsqueeze(2)).logical_and(place < y2.unsqueeze(2) + REACH)
    start = paddle.where(near.logical_and(printed > 0.5), place.expand_as(printed), far).min(2)
    # A line ends where four rows without ink begin: the dot of an i is nearer to its stem.
    coming = F.max_pool1d(F.pad(printed, [0, 3], data_format="NCL"), 4, 1)
    blank = (coming < 0.5).logical_and(place > start.unsqueeze(2))
    end = paddle.where(blank, place.expand_as(printed), far).min(2)
    height = end - start
    found = wanting * ((height >= LOWEST).logical_and(height <= HIGHEST)).astype("float32")
    y2 = paddle.where(found > 0.5, end - 0.5 + margin, y2)
    return paddle.stack([x1, y1, x2, y2], 2)
