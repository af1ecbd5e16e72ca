# SPDX-License-Identifier: Apache-2.0
"""Reading order of boxes as tensor operations, so that it can live in the inference graph.

A pairwise rule in the manner of Breuel ("High performance document layout analysis", 2003): of two blocks that share
columns of the page the upper one is read first; of two that do not, the left one, unless the left column only begins
below the other block or something that spans the columns lies between. Matrix products find the witnesses.
"""

from __future__ import annotations

import numpy as np
import paddle
from paddle import Tensor

from ..pages.labels import DRAWN, MARGINAL

SLACK = 3.0  # px of the 800x800 input by which boxes may touch without sharing a row or a column
CENTRED = 12.0  # px by which the middle of a centred block may miss the middle of the text


def _is(labels: tuple[str, ...], kind: Tensor) -> Tensor:
    """1.0 where ``kind`` [N, K] is one of ``labels``."""
    mark = np.array([float(label in labels) for label in DRAWN], np.float32)
    return paddle.to_tensor(mark).gather(kind.reshape([-1])).reshape(paddle.shape(kind))


def _widen_centred(x1: Tensor, x2: Tensor, body: Tensor) -> tuple[Tensor, Tensor]:
    """Blocks centred on the text reach across it: a short centred heading divides columns like a long one."""
    left = paddle.where(body > 0, x1, paddle.full_like(x1, 1e4)).min(1, keepdim=True)
    right = paddle.where(body > 0, x2, paddle.full_like(x2, -1e4)).max(1, keepdim=True)
    centred = ((x1 + x2) / 2 - (left + right) / 2).abs() < CENTRED
    return (
        paddle.where(centred, paddle.minimum(x1, left), x1),
        paddle.where(centred, paddle.maximum(x2, right), x2),
    )


def reading_keys(boxes: Tensor, kind: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Order keys and tie-breaks [N, K] of boxes [N, K, 4] (x1, y1, x2, y2) in px of the 800x800 input.

    ``kind`` [N, K] indexes DRAWN; boxes that are not ``valid`` bear on no other. Sort by key upward, then by
    tie-break downward. Headers come first, footnotes, footers and page numbers last.
    """
    x1, y1, x2, y2 = (boxes[:, :, index] for index in range(4))
    body = valid.astype("float32") * (1 - _is(MARGINAL, kind))
    x1, x2 = _widen_centred(x1, x2, body)
    both = body.unsqueeze(2) * body.unsqueeze(1)

    def shared(low: Tensor, high: Tensor) -> Tensor:
        overlap = paddle.minimum(high.unsqueeze(2), high.unsqueeze(1)) - paddle.maximum(
            low.unsqueeze(2), low.unsqueeze(1)
        )
        length = high - low
        needed = (0.3 * paddle.minimum(length.unsqueeze(2), length.unsqueeze(1))).clip(max=2 * SLACK)
        return (overlap > needed).astype("float32") * both

    columns, rows = shared(x1, x2), shared(y1, y2)
    y, x = (y1 + y2) / 2, (x1 + x2) / 2
    higher = (y.unsqueeze(2) < y.unsqueeze(1)).astype("float32")
    lefter = (x.unsqueeze(2) < x.unsqueeze(1)).astype("float32")
    apart = (1 - columns) * both
    beside = apart * rows
    # below[i, j]: i begins where j ends, or lower.
    below = (y1.unsqueeze(2) + SLACK >= y2.unsqueeze(1)).astype("float32") * both
    # A block spans if two blocks that stand side by side both share columns with it; it divides what it lies between.
    spans = ((paddle.matmul(columns, beside) * columns).sum(2) > 0.5).astype("float32")
    divided = paddle.matmul(below.transpose([0, 2, 1]) * spans.unsqueeze(1), below.transpose([0, 2, 1]))
    divided = (divided + divided.transpose([0, 2, 1]) > 0.5).astype("float32")
    # level[i, j]: i begins before j ends. The column of l stands beside u if it holds something level with u.
    level = (y1.unsqueeze(2) + SLACK < y2.unsqueeze(1)).astype("float32") * (1 - divided)
    parallel = (paddle.matmul(columns, apart * level) > 0.5).astype("float32")  # [l, u]
    # A block with nothing beside it and no other block in its column, such as a date on the right, makes no column.
    company = paddle.maximum(paddle.matmul(apart, columns * (1 - divided)) - 1.5, beside.sum(1, keepdim=True))
    parallel = parallel * (company > 0).astype("float32")
    parallel = paddle.where(higher.transpose([0, 2, 1]) > 0, parallel, parallel.transpose([0, 2, 1]))
    by_column = apart * paddle.maximum(rows, parallel * (1 - divided))
    first = by_column * lefter + (1 - by_column) * higher
    rank = (first * both).sum(1)

    middle = (y < 400.0).astype("float32")
    zone = 1.0 - _is(("header",), kind) + _is(("footnote",), kind) + 2 * _is(("footer",), kind)
    zone = zone + _is(("number",), kind) * (2 - 3 * middle)
    return zone * 1000.0 + rank, -y
