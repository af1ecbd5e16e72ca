# SPDX-License-Identifier: Apache-2.0
"""Logits of two implementations in float32 with the same weights.

The bars are DESIGN.md's: mean of |ours - reference| / (|reference| + 1e-3) at most 0.01 %, the same first choice
at every position where the reference's margin is at least 1e-4, and cosine at least 0.999999.
"""

from __future__ import annotations

import torch

EPSILON, MAX_RELATIVE_ERROR, MIN_MARGIN, MIN_COSINE = 1e-3, 1e-4, 1e-4, 0.999999


def check_logits(ours: torch.Tensor, theirs: torch.Tensor, name: str) -> None:
    assert ours.shape == theirs.shape, name
    relative = ((ours - theirs).abs() / (theirs.abs() + EPSILON)).mean(dtype=torch.float64).item()
    best = theirs.topk(2).values
    certain = best[:, 0] - best[:, 1] >= MIN_MARGIN
    differing = (ours.argmax(-1) != theirs.argmax(-1))[certain].sum().item()
    cosine = torch.nn.functional.cosine_similarity(ours.double(), theirs.double(), dim=-1).min().item()
    print(
        f"{name}: {len(ours)} positions, {certain.sum()} with a margin; mean relative error {relative:.2e}, "
        f"first choice differs at {differing}, cosine at least {cosine:.12f}"
    )
    assert relative <= MAX_RELATIVE_ERROR, name
    assert certain.any() and differing == 0, name
    assert cosine >= MIN_COSINE, name
