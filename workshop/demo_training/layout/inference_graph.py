# SPDX-License-Identifier: Apache-2.0
"""The detector as a Paddle inference graph with PP-DocLayoutV2's inputs and outputs.

Runs in the parser environment. Weights come from ``fold`` with batch norms folded into the convolutions;
names follow ``network``. Batches of any size; N pages, K candidates a page.
"""

from __future__ import annotations

import numpy as np
import paddle
from paddle import Tensor, nn
from paddle.nn import functional as F

from ..pages.labels import DRAWN, LABELS
from .overlaps import part_overlapping
from .reading_order import reading_keys
from .stray_lines import adopt_stray_lines, ink_map

INPUT, STRIDE, CELL, WINDOW = 800, 4, 4, 64  # as in network.py, which needs torch
PEAKS, KEPT = 160, 80
MARGIN = 4.0  # source px between ink and box, as in targets.py
STRAY_LINES = 8  # below a block that become part of it, at most
#: The pipeline's thresholds (PaddleX, PaddleOCR-VL.yaml): what is below will be dropped and must bear on nothing.
THRESHOLDS = {"text": 0.4, "paragraph_title": 0.4, "doc_title": 0.4}


class Unit(nn.Layer):
    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, dilation: int = 1):
        super().__init__()
        self.conv = nn.Conv2D(inputs, outputs, kernel, stride, dilation * (kernel // 2), dilation)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv(x))


class Context(nn.Layer):
    def __init__(self, width: int):
        super().__init__()
        self.units = nn.LayerList([Unit(width, width, dilation=dilation) for dilation in (1, 2, 4)])
        self.rows = nn.Conv2D(width, width, 1)
        self.columns = nn.Conv2D(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        for unit in self.units:
            x = x + unit(x)
        return F.relu(x + self.rows(x.mean(3, keepdim=True)) + self.columns(x.mean(2, keepdim=True)))


def double(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2, mode="nearest")


class LayoutGraph(nn.Layer):
    """``forward(im_shape, image, scale_factor)`` -> boxes [N * KEPT, 8], boxes_num [N].

    ``image`` [N, 3, 800, 800] RGB 0..1, ``im_shape`` [N, 2] its (height, width) in px, ``scale_factor`` [N, 2] its
    (vertical, horizontal) px per source px. A row of boxes is class, score, x1, y1, x2, y2 in source px, order key,
    tie-break. Every page has KEPT rows, those beyond its blocks with score 0: PaddleX's post-processing fails on
    none at all, which a blank page would give.
    """

    def __init__(self, score_power: float = 1.0):
        super().__init__()
        classes = len(DRAWN)
        self.stem = Unit(CELL * CELL, 24)
        self.down8 = nn.LayerList([Unit(24, 48, stride=2), Unit(48, 48)])
        self.down16 = nn.LayerList([Unit(48, 96, stride=2), Unit(96, 96)])
        self.down32 = Unit(96, 128, stride=2)
        self.context = Context(128)
        self.across32 = nn.Conv2D(128, 96, 1)
        self.up16 = Unit(96, 96)
        self.across16 = nn.Conv2D(96, 48, 1)
        self.up8 = Unit(48, 48)
        self.deep8 = Unit(48, 48)
        self.heat = nn.Conv2D(48, classes, 1)
        self.distances = nn.Conv2D(48, 4, 1)
        self.across8 = nn.Conv2D(48, 24, 1)
        self.up4 = Unit(24, 24)
        self.edges = nn.Conv2D(24, 16, 1)
        self.fine4 = Unit(24, 32)
        self.fine_heat = nn.Conv2D(32, classes, 1, bias_attr=False)
        self.fine_distances = nn.Conv2D(32, 4, 1, bias_attr=False)
        self.score_power = score_power
        # Small marginal print would be doubled by the margin that other blocks have; source px a side.
        trims = {"number": 2.5, "header": 1.5, "footer": 1.5}
        self.trims = np.array([trims.get(label, 0.0) for label in DRAWN], np.float32)
        self.thresholds = np.array([THRESHOLDS.get(label, 0.5) for label in DRAWN], np.float32)
        in_lines = ("text", "paragraph_title", "doc_title", "footnote")
        self.set_in_lines = np.array([float(label in in_lines) for label in DRAWN], np.float32)
        self.label_indices = np.array([LABELS.index(label) for label in DRAWN], np.float32)

    def features(self, grey: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Heat logits [N, classes, 200, 200], log distances [N, 4, 200, 200], edge logits [N, 4, 200, 800]."""
        x4 = self.stem(F.pixel_unshuffle(grey, CELL))
        x8 = self.down8[0](x4)
        x8 = x8 + self.down8[1](x8)
        x16 = self.down16[0](x8)
        x16 = x16 + self.down16[1](x16)
        x32 = self.context(self.down32(x16))
        x16 = self.up16(x16 + double(self.across32(x32)))
        x8 = self.up8(x8 + double(self.across16(x16)))
        x8 = x8 + self.deep8(x8)
        x4 = self.up4(x4 + double(self.across8(x8)))
        fine = self.fine4(x4)
        heat = double(self.heat(x8)) + self.fine_heat(fine)
        distances = double(self.distances(x8)) + self.fine_distances(fine)
        cells = INPUT // CELL
        sides = self.edges(x4).reshape([-1, 4, CELL, cells, cells])
        upright = sides[:, 0::2].transpose([0, 1, 3, 4, 2]).reshape([-1, 2, cells, INPUT])
        level = sides[:, 1::2].transpose([0, 1, 4, 3, 2]).reshape([-1, 2, cells, INPUT])
        edges = paddle.stack([upright[:, 0], level[:, 0], upright[:, 1], level[:, 1]], 1)
        return heat, distances, edges

    def candidates(self, heat: Tensor, distances: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The PEAKS highest local maxima: DRAWN index, score [N, PEAKS], coarse boxes [N, PEAKS, 4] in input px."""
        cells = INPUT // STRIDE
        chance = F.sigmoid(heat)
        score = chance.max(1, keepdim=True)
        kind = chance.argmax(1).reshape([-1, cells * cells])
        highest = F.max_pool2d(score, 3, 1, 1)
        peaks = paddle.where(score >= highest, score, paddle.zeros_like(score)).reshape([-1, cells * cells])
        score, place = paddle.topk(peaks, PEAKS, axis=1)
        kind = paddle.take_along_axis(kind, place, 1)
        spread = distances.reshape([-1, 4, cells * cells]).transpose([0, 2, 1])
        spread = paddle.take_along_axis(spread, place.unsqueeze(2).expand([-1, -1, 4]), 1).clip(max=6.0).exp() * STRIDE
        x = (place % cells).astype("float32") * STRIDE + STRIDE / 2
        y = (place // cells).astype("float32") * STRIDE + STRIDE / 2
        centre = paddle.stack([x, y], 2)
        boxes = paddle.concat([centre - spread[:, :, :2], centre + spread[:, :, 2:]], 2)
        return kind, score, boxes.clip(0.0, float(INPUT))

    def refine(self, edges: Tensor, boxes: Tensor) -> Tensor:
        """Move each side of coarse ``boxes`` [N, K, 4] to the likeliest edge near it (see network.edge_profiles)."""
        cells = INPUT // CELL
        sums = F.pad(edges.cumsum(2), [0, 0, 1, 0], mode="constant", value=0.0, data_format="NCHW")
        low = boxes.index_select(paddle.to_tensor([1, 0, 1, 0]), 2)
        high = boxes.index_select(paddle.to_tensor([3, 2, 3, 2]), 2)
        first = (low / CELL).floor().clip(0, cells - 1)
        last = paddle.maximum((high / CELL).ceil().clip(1, cells), first + 1)
        offsets = paddle.arange(-WINDOW, WINDOW + 1, dtype="float32")
        places = boxes.floor().unsqueeze(3) + offsets
        columns = places.clip(0, INPUT - 1).astype("int64")
        page = paddle.arange(paddle.shape(boxes)[0], dtype="int64").reshape([-1, 1, 1, 1])
        side = paddle.arange(4, dtype="int64").reshape([1, 1, 4, 1])
        map_start = (page * 4 + side) * (cells + 1)
        flat = sums.reshape([-1])

        def at(row: Tensor) -> Tensor:
            index = (map_start + row.astype("int64").unsqueeze(3)) * INPUT + columns
            return flat.gather(index.reshape([-1])).reshape([-1, boxes.shape[1], 4, 2 * WINDOW + 1])

        logits = (at(last) - at(first)) / (last - first).unsqueeze(3)
        size = ((boxes[:, :, 2:] - boxes[:, :, :2]) * paddle.to_tensor([0.12, 0.06])).clip(min=4.0)
        spread = paddle.concat([size, size], 2).unsqueeze(3)
        logits = logits - 0.5 * ((places + 0.5 - boxes.unsqueeze(3)) / spread) ** 2
        best = logits.argmax(3, keepdim=True).astype("float32") - WINDOW
        logits = paddle.where((offsets - best).abs() <= 3.0, logits, paddle.full_like(logits, -1e4))
        return (F.softmax(logits, 3) * (places + 0.5)).sum(3)

    def suppress(self, kind: Tensor, score: Tensor, boxes: Tensor) -> Tensor:
        """Scores with 0 for those that lie over a better candidate by 60 % of the smaller of the two.

        Over a table 40 % do: a cell taken for a heading may reach out of its table, and part the columns there.
        """
        # What pictures and tables contain belongs to them, however sure the inner candidate is.
        container = np.array([0.5 if label in ("table", "image", "chart") else 0.0 for label in DRAWN], np.float32)
        rank = score + paddle.to_tensor(container).gather(kind.reshape([-1])).reshape(paddle.shape(kind))
        rank = paddle.where(score > 0.4, rank, score)
        corner = paddle.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
        corner = corner - paddle.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
        shared = corner.clip(min=0.0).prod(3)
        size = (boxes[:, :, 2:] - boxes[:, :, :2]).clip(min=0.0).prod(2)
        shares = np.array([0.4 if label == "table" else 0.6 for label in DRAWN], np.float32)
        share = paddle.to_tensor(shares).gather(kind.reshape([-1])).reshape(paddle.shape(kind))
        share = paddle.where(score > 0.4, share, paddle.full_like(share, 0.6)).unsqueeze(2)  # of the better candidate
        over = shared > share * paddle.minimum(size.unsqueeze(2), size.unsqueeze(1)).clip(min=1.0)
        better = (rank.unsqueeze(2) > rank.unsqueeze(1)).logical_and(over).astype("float32")
        alive = paddle.ones_like(score)
        for _ in range(5):
            # Converges to greedy suppression: those out of the game suppress no one.
            alive = (paddle.matmul(alive.unsqueeze(1), better).squeeze(1) < 0.5).astype("float32")
        return score * alive

    def forward(self, im_shape: Tensor, image: Tensor, scale_factor: Tensor) -> tuple[Tensor, Tensor]:
        grey = image.mean(1, keepdim=True)
        heat, distances, edges = self.features(grey)
        kind, score, coarse = self.candidates(heat, distances)
        # The second time each side is averaged over the right span, and further edges have come into reach.
        boxes = self.refine(edges, self.refine(edges, coarse))
        limit = paddle.concat([im_shape.flip(1), im_shape.flip(1)], 1).unsqueeze(1)
        boxes = paddle.minimum(boxes.clip(min=0.0), limit)
        score = self.suppress(kind, score, boxes)
        score, place = paddle.topk(score, KEPT, axis=1)
        kind = paddle.take_along_axis(kind, place, 1)
        boxes = paddle.take_along_axis(boxes, place.unsqueeze(2).expand([-1, -1, 4]), 1)
        score = score**self.score_power

        def by_kind(values: np.ndarray) -> Tensor:
            return paddle.to_tensor(values).gather(kind.reshape([-1])).reshape(paddle.shape(kind))

        kept = score > by_kind(self.thresholds)
        valid = kept.astype("float32")
        wanting = valid * by_kind(self.set_in_lines)
        boxes = part_overlapping(boxes, wanting)
        ink = ink_map(grey)
        for _ in range(STRAY_LINES):
            boxes = adopt_stray_lines(ink, boxes, valid, wanting, MARGIN * scale_factor[:, :1])
        key, tie = reading_keys(boxes, kind, kept)
        scale = scale_factor.flip(1)
        boxes = boxes / paddle.concat([scale, scale], 1).unsqueeze(1)
        boxes = boxes + by_kind(self.trims).unsqueeze(2) * paddle.to_tensor([1.0, 1.0, -1.0, -1.0])
        rows = paddle.concat(
            [paddle.stack([by_kind(self.label_indices), score], 2), boxes, paddle.stack([key, tie], 2)], 2
        )
        counts = paddle.full([paddle.shape(boxes)[0]], KEPT, dtype="int32")
        return rows.reshape([-1, 8]), counts
