# SPDX-License-Identifier: Apache-2.0
"""Reading order of boxes as tensor operations, so that it can live in the inference graph.

A pairwise rule in the manner of Breuel ("High performance document layout analysis", 2003): of two blocks that share
columns of the page the upper one is read first; of two that do not, the left one, unless they are in no common band
of columns or something lies between them across both. Matrix products find the witnesses.
"""

from __future__ import annotations

import numpy as np
import paddle
from paddle import Tensor

from ..pages.labels import DRAWN

SLACK = 3.0  # px of the 800x800 input by which boxes may touch without sharing a row or a column


def reading_keys(boxes: Tensor, kind: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Order keys and tie-breaks [N, K] of boxes [N, K, 4] (x1, y1, x2, y2) in px of the 800x800 input.

    ``kind`` [N, K] indexes DRAWN; boxes that are not ``valid`` bear on no other. Sort by key upward, then by
    tie-break downward. Headers come first, footnotes, footers and page numbers last.
    """
    x1, y1, x2, y2 = (boxes[:, :, index] for index in range(4))
    yes = valid.astype("float32")
    both = yes.unsqueeze(2) * yes.unsqueeze(1)

    def shared(low: Tensor, high: Tensor) -> Tensor:
        overlap = paddle.minimum(high.unsqueeze(2), high.unsqueeze(1)) - paddle.maximum(low.unsqueeze(2), low.unsqueeze(1))
        length = high - low
        needed = (0.3 * paddle.minimum(length.unsqueeze(2), length.unsqueeze(1))).clip(max=2 * SLACK)
        return (overlap > needed).astype("float32") * both

    columns, rows = shared(x1, x2), shared(y1, y2)
    y = (y1 + y2) / 2
    x = (x1 + x2) / 2
    higher = (y.unsqueeze(2) < y.unsqueeze(1)).astype("float32")
    lefter = (x.unsqueeze(2) < x.unsqueeze(1)).astype("float32")
    # below[i, j]: i begins where j ends, or lower.
    below = (y1.unsqueeze(2) + SLACK >= y2.unsqueeze(1)).astype("float32")
    above = below.transpose([0, 2, 1])
    apart = 1 - columns
    # i and j are in parallel columns if something in i's column is beside j, or the reverse.
    beside = apart * rows
    parallel = paddle.matmul(columns, beside)
    parallel = ((parallel + parallel.transpose([0, 2, 1])) > 0.5).astype("float32")
    # divided[i, j]: something across both lies below i and above j.
    divided = (paddle.matmul((columns * below).transpose([0, 2, 1]), columns * above) > 0.5).astype("float32")
    divided = paddle.maximum(divided, divided.transpose([0, 2, 1]))
    by_column = apart * paddle.maximum(rows, parallel * (1 - divided))
    first = by_column * lefter + (1 - by_column) * higher
    rank = (first * both).sum(1)

    middle = (y < 400.0).astype("float32")
    marks = {name: np.zeros(len(DRAWN), np.float32) for name in ("head", "note", "foot", "number")}
    for name, label in (("head", "header"), ("note", "footnote"), ("foot", "footer"), ("number", "number")):
        marks[name][DRAWN.index(label)] = 1.0
    flat = kind.reshape([-1])
    is_a = {name: paddle.to_tensor(mark).gather(flat).reshape(paddle.shape(kind)) for name, mark in marks.items()}
    zone = 1.0 - is_a["head"] + is_a["note"] + 2 * is_a["foot"] + is_a["number"] * (2 - 3 * middle)
    return zone * 1000.0 + rank, -y
