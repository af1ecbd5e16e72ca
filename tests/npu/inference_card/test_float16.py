# SPDX-License-Identifier: Apache-2.0
"""float16 against float32 in tower and projector of the published shapes: random weights, with the outliers that
trained vision towers have, and how far their values are from float16's largest, 65504.

The outliers: Sun et al. (arXiv 2402.17762) found activations of up to some hundreds in two or three channels of the
residual stream of vision transformers, all other values being near 1. Here two channels hold several times as much from
the first layer on. Products are PyTorch's of the CPU, which add up in float32, as the card's matrix unit does; that the
card's LayerNorm does too is not shown.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.npu.towers import build

GRID = (1, 4, 6)
LAYERS, OUTLIERS, PEAK = 3, (7, 700), 2000.0
LARGEST = torch.finfo(torch.float16).max


def filled(tower: nn.Module, projector: nn.Module) -> None:
    """Random weights whose layers keep the spread of their inputs, and a patch embedding with outliers."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for module in (tower, projector):
            for name, parameter in module.named_parameters():
                spread = parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 0.1
                parameter.normal_(generator=generator).mul_(spread)
                if parameter.ndim == 1 and "norm" in name and name.endswith("weight"):
                    parameter.add_(1)
        bias = tower.get_parameter("vision_model.embeddings.patch_embedding.bias")
        bias[list(OUTLIERS)] = torch.tensor([PEAK, -PEAK])


def read(
    monkeypatch: pytest.MonkeyPatch, backend: str, dtype: torch.dtype, source: Any = None
) -> tuple[Tensor, float, Any]:
    """Tokens of one image, the largest value that a module gave, and the modules; `source` are others' weights."""
    tower, projector, _ = build(monkeypatch, backend, "cpu", dtype, {"num_hidden_layers": LAYERS})
    largest = [0.0]
    for module in (*tower.modules(), *projector.modules()):
        module.register_forward_hook(lambda _, __, found: note(largest, found))
    if source:
        for module, other in zip((tower, projector), source, strict=True):
            module.load_state_dict(other.state_dict())
    else:
        filled(tower, projector)
    pixels = torch.randn(GRID[1] * GRID[2], 588, generator=torch.Generator().manual_seed(1)).to(dtype)
    with torch.inference_mode():
        return projector(tower(pixels, [GRID])).float(), largest[0], (tower, projector)


def note(largest: list[float], found: Any) -> None:
    if isinstance(found, Tensor):
        largest[0] = max(largest[0], float(found.abs().max()))


def test_the_tower_in_float16_is_the_one_in_float32(cpu_kernels: None, one_rank: None, monkeypatch: pytest.MonkeyPatch):
    expected, largest, modules = read(monkeypatch, "sdpa", torch.float32)
    found, _, _ = read(monkeypatch, "npu-atb-310p", torch.float16, modules)
    assert PEAK <= largest < LARGEST / 8
    cosine = torch.nn.functional.cosine_similarity(found, expected, dim=-1).min()
    assert found.isfinite().all() and cosine > 0.999, cosine
