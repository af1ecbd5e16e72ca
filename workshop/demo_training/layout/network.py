# SPDX-License-Identifier: Apache-2.0
"""The detector: coarse boxes from centre heat maps (CenterNet, arXiv 1904.07850), edges refined along profiles.

Input: grey pages [N, 1, 800, 800] float in 0..1. All lengths below are px of that 800x800 input.
The same network is rebuilt in Paddle by ``inference_graph``; names and shapes of the weights must stay equal.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..pages.labels import DRAWN

INPUT = 800
STRIDE = 4  # of the centre maps: lines of small print lie 11 px apart, and each may be a block
CELL = 4  # stride of the edge maps across an edge; along it they have one column per px
WINDOW = 64  # an edge is looked for this far from the coarse one


class Unit(nn.Module):
    """Convolution, batch norm, ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, dilation: int = 1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, dilation * (kernel // 2), dilation, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.conv(x)))


class Context(nn.Module):
    """Residual units of growing dilation, then row and column means, at stride 32."""

    def __init__(self, width: int):
        super().__init__()
        self.units = nn.ModuleList(Unit(width, width, dilation=dilation) for dilation in (1, 2, 4))
        self.rows = nn.Conv2d(width, width, 1)
        self.columns = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        for unit in self.units:
            x = x + unit(x)
        return torch.relu(x + self.rows(x.mean(3, keepdim=True)) + self.columns(x.mean(2, keepdim=True)))


class LayoutNetwork(nn.Module):
    """Returns heat logits [N, classes, 200, 200], log distances [N, 4, 200, 200] and edge logits [N, 4, 200, 800].

    Distances are to left, top, right, bottom from a cell's centre, as log(px / STRIDE). Edge logits are indexed
    (side, cell across the edge, px along its axis), sides in the same order.
    """

    def __init__(self, classes: int = len(DRAWN)):
        super().__init__()
        self.stem = Unit(CELL * CELL, 24)
        self.down8 = nn.ModuleList([Unit(24, 48, stride=2), Unit(48, 48)])
        self.down16 = nn.ModuleList([Unit(48, 96, stride=2), Unit(96, 96)])
        self.down32 = Unit(96, 128, stride=2)
        self.context = Context(128)
        self.across32 = nn.Conv2d(128, 96, 1)
        self.up16 = Unit(96, 96)
        self.across16 = nn.Conv2d(96, 48, 1)
        self.up8 = Unit(48, 48)
        self.deep8 = Unit(48, 48)
        self.heat = nn.Conv2d(48, classes, 1)
        self.distances = nn.Conv2d(48, 4, 1)
        self.across8 = nn.Conv2d(48, 24, 1)
        self.up4 = Unit(24, 24)
        self.edges = nn.Conv2d(24, 16, 1)
        self.fine4 = Unit(24, 32)
        self.fine_heat = nn.Conv2d(32, classes, 1, bias=False)
        self.fine_distances = nn.Conv2d(32, 4, 1, bias=False)
        assert self.heat.bias is not None
        nn.init.constant_(self.heat.bias, -4.0)
        nn.init.normal_(self.distances.weight, std=0.01)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x4 = self.stem(nn.functional.pixel_unshuffle(image, CELL))
        x8 = self.down8[0](x4)
        x8 = x8 + self.down8[1](x8)
        x16 = self.down16[0](x8)
        x16 = x16 + self.down16[1](x16)
        x32 = self.context(self.down32(x16))
        # 25 -> 50 -> 100 -> 200: nearest, which both frameworks compute alike.
        x16 = self.up16(x16 + double(self.across32(x32)))
        x8 = self.up8(x8 + double(self.across16(x16)))
        x8 = x8 + self.deep8(x8)
        x4 = self.up4(x4 + double(self.across8(x8)))
        fine = self.fine4(x4)
        heat = double(self.heat(x8)) + self.fine_heat(fine)
        distances = double(self.distances(x8)) + self.fine_distances(fine)
        return heat, distances, unfold_edges(self.edges(x4))


def double(x: Tensor) -> Tensor:
    return nn.functional.interpolate(x, scale_factor=2.0, mode="nearest")


def unfold_edges(fine: Tensor) -> Tensor:
    """[N, 16, 200, 200], channels (side, px within the cell), to [N, 4, 200 across, 800 along]."""
    count, _, rows, columns = fine.shape
    sides = fine.reshape(count, 4, CELL, rows, columns)
    upright = sides[:, 0::2].permute(0, 1, 3, 4, 2).reshape(count, 2, rows, columns * CELL)
    level = sides[:, 1::2].permute(0, 1, 4, 3, 2).reshape(count, 2, columns, rows * CELL)
    return torch.stack((upright[:, 0], level[:, 0], upright[:, 1], level[:, 1]), 1)


def edge_profiles(edges: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Edge logits near each side of coarse boxes of one page.

    ``edges`` [4, 200, 800]; ``boxes`` [K, 4] (x1, y1, x2, y2). Returns logits [K, 4, 2 * WINDOW + 1] with a prior
    for the coarse place, and the px positions [K, 4, 2 * WINDOW + 1] that they stand for.
    """
    sums = torch.nn.functional.pad(edges.cumsum(1), (0, 0, 1, 0))
    spans = boxes[:, [1, 0, 1, 0, 3, 2, 3, 2]].reshape(-1, 2, 4)  # across the edge: rows for left and right
    cells = edges.shape[1]
    first = (spans[:, 0] / CELL).floor().long().clamp(0, cells - 1)
    last = torch.maximum((spans[:, 1] / CELL).ceil().long().clamp(1, cells), first + 1)
    places = boxes.floor().long()[:, :, None] + torch.arange(-WINDOW, WINDOW + 1)
    columns = places.clamp(0, edges.shape[2] - 1)
    side = torch.arange(4)[None, :, None]
    total = sums[side, last[:, :, None], columns] - sums[side, first[:, :, None], columns]
    logits = total / (last - first)[:, :, None]
    offset = places + 0.5 - boxes[:, :, None]
    return logits - 0.5 * (offset / prior_spread(boxes)[:, :, None]) ** 2, places + 0.5


def prior_spread(boxes: Tensor) -> Tensor:
    """Width in px [K, 4] of the prior around each coarse side of ``boxes`` [K, 4]: twice the expected error.

    Wide blocks are the harder: the middle of a line is far from both its ends.
    """
    size = (boxes[:, 2:] - boxes[:, :2]) * torch.tensor([0.12, 0.06])
    return size.clamp(min=4.0).repeat(1, 2)
