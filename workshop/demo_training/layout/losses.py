# SPDX-License-Identifier: Apache-2.0
"""Losses of the detector."""

from __future__ import annotations

import torch
from torch import Tensor

from ..pages.labels import DRAWN
from .network import STRIDE, WINDOW, edge_profiles, prior_spread

#: Three blocks in five are text; what is rare counts more, or its class is learnt last.
RARE = {"paragraph_title": 2.0, "doc_title": 1.5, "table": 2.0, "image": 3.0, "chart": 3.0, "footnote": 3.0}
AREA = (STRIDE / 8) ** 2  # of a cell, in cells of 8 px


def heat_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Penalty-reduced focal loss over [N, classes, H, W] (CenterNet, equation 1), per object, weighted by class.

    Cells without a centre count by the area that they cover, so that the scores do not depend on the stride.
    """
    weight = torch.tensor([RARE.get(label, 1.0) for label in DRAWN])[:, None, None]
    chance = torch.sigmoid(logits)
    peak = target.ge(0.9999).to(logits.dtype)
    hit = torch.nn.functional.logsigmoid(logits) * (1 - chance) ** 2 * peak
    miss = torch.nn.functional.logsigmoid(-logits) * chance**2 * (1 - target) ** 4 * (1 - peak)
    return -((hit + miss * AREA) * weight).sum() / peak.sum().clamp(min=1)


def distance_loss(predicted: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """L1 of log distances [N, 4, H, W] where ``mask`` [N, H, W] holds, plus 1 - IoU of the boxes they span."""
    weight = mask / mask.sum().clamp(min=1)
    l1 = ((predicted - target).abs().sum(1) * weight).sum()
    ours, theirs = predicted.clamp(max=6).exp(), target.exp()
    shared = torch.minimum(ours, theirs)
    overlap = (shared[:, 0] + shared[:, 2]) * (shared[:, 1] + shared[:, 3])
    union = (ours[:, 0] + ours[:, 2]) * (ours[:, 1] + ours[:, 3]) + (theirs[:, 0] + theirs[:, 2]) * (
        theirs[:, 1] + theirs[:, 3]
    )
    iou = overlap / (union - overlap).clamp(min=1e-6)
    return l1 + ((1 - iou) * weight).sum()


def edge_loss(edges: Tensor, boxes: Tensor, generator: torch.Generator) -> Tensor:
    """Cross-entropy of the four edge positions of one page, seen from coarse boxes with made-up errors.

    ``edges`` [4, 200, 800], true ``boxes`` [K, 4] in px.
    """
    error = torch.randn(boxes.shape, generator=generator) * prior_spread(boxes) / 2
    coarse = boxes + error.clamp(-WINDOW + 4, WINDOW - 4)
    logits, places = edge_profiles(edges, coarse)
    target = torch.softmax(-0.5 * ((places - boxes[:, :, None]) / 0.7) ** 2, -1)
    return -(target * torch.log_softmax(logits, -1)).sum(-1).mean()
