# SPDX-License-Identifier: Apache-2.0
"""How far a candidate's logits are from a baseline's, position by position.

The relative error is mean |c - b| / (|b| + EPSILON). Logits lie in about [-15, 25] and some are next to zero, where a
difference in the last bits of float32 is a million times the value itself: with the usual 1e-12 in the denominator
these few decide the mean (percentages of seven digits). 1e-3 is far below what changes a token and far above
rounding, so the mean says how far the device computes from the baseline.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

EPSILON = 1e-3
ROWS = 256  # positions compared at a time: a published vocabulary's float64 copy of all would take gigabytes


@dataclass
class Positions:
    """Figures of each position, as lists of equal length. ``error`` is the relative error, a fraction, or for a served
    candidate the mean |difference| in nats over the server's most probable tokens; then ``cosine`` is empty. ``margin``
    is the baseline's distance between its first and second choice; ``first`` and ``candidate_first`` are token ids."""

    error: list[float] = field(default_factory=list)
    cosine: list[float] = field(default_factory=list)
    margin: list[float] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    candidate_first: list[int] = field(default_factory=list)
    finite: list[bool] = field(default_factory=list)

    def agrees(self, position: int) -> bool:
        """Whether the first choices are the same; never where a value is no number."""
        return self.finite[position] and self.first[position] == self.candidate_first[position]

    @property
    def agreeing(self) -> int:
        """Positions with the same first choice."""
        return sum(map(self.agrees, range(len(self.first))))


def compare(baseline: torch.Tensor, candidate: torch.Tensor) -> Positions:
    """Both [positions, vocabulary]. Positions with infinities or NaN get an infinite error and a cosine of 0."""
    if baseline.shape != candidate.shape:
        raise ValueError(f"logits of shape {tuple(candidate.shape)} cannot be compared with {tuple(baseline.shape)}")
    result = Positions()
    for start in range(0, len(baseline), ROWS):
        ours, theirs = (side[start : start + ROWS].double() for side in (candidate, baseline))
        finite = ours.isfinite().all(-1) & theirs.isfinite().all(-1)
        error = ((ours - theirs).abs() / (theirs.abs() + EPSILON)).mean(-1)
        cosine = torch.nn.functional.cosine_similarity(ours, theirs, dim=-1)
        best = theirs.topk(2).values
        result.error += torch.where(finite, error, math.inf).tolist()
        result.cosine += torch.where(finite, cosine, 0.0).tolist()
        result.margin += (best[:, 0] - best[:, 1]).tolist()
        result.first += theirs.argmax(-1).tolist()
        result.candidate_first += ours.argmax(-1).tolist()
        result.finite += finite.tolist()
    return result


def compare_served(logits: torch.Tensor, tokens: list[int], most_probable: list[dict[int, float]]) -> Positions:
    """The baseline's logits [tokens, vocabulary] that predict ``tokens``, against a server's log-probabilities."""
    result = Positions()
    for row, token, served in zip(logits.double(), tokens, most_probable, strict=True):
        expected = torch.log_softmax(row, -1)
        ids = torch.tensor(list(served))
        differences = (torch.tensor(list(served.values()), dtype=torch.float64) - expected[ids]).abs()
        best = expected.topk(2)
        result.error.append(differences.mean().item())
        result.margin.append((best.values[0] - best.values[1]).item())
        result.first.append(int(best.indices[0]))
        result.candidate_first.append(token)
        result.finite.append(True)
    return result
