# SPDX-License-Identifier: Apache-2.0
"""The tower in float16, which is all that a 310P's matrix units compute with, against float32: on a CPU, so it shows
what the number format costs and whether a sum overflows, not what a 310P's operators do.

Weights: the demo's, and random ones in the published sizes. The published weights were not at hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from tests.npu.tower.test_tower import build
from tests.support.paths import DEMO_VLM

GRIDS = [(1, 8, 12), (1, 4, 4)]
PATCHES = sum(rows * columns for _, rows, columns in GRIDS)
LARGEST = torch.finfo(torch.float16).max


def demo_tensors() -> Iterator[tuple[str, Tensor]]:
    """The demo's tensors of the tower and its projector."""
    for file in sorted(DEMO_VLM.glob("*.safetensors")):
        for name, tensor in load_file(file).items():
            if name.startswith(("visual.", "mlp_AR.")):
                yield name, tensor


def peaks(*modules: nn.Module) -> list[float]:
    """The largest absolute values that the layers of the modules give, once they run."""
    found: list[float] = []

    def keep(_: nn.Module, __: Any, output: Any) -> None:
        values = output[0] if isinstance(output, tuple) else output
        if isinstance(values, Tensor):
            found.append(float(values.float().abs().max()))

    for module in modules:
        for layer in module.modules():
            layer.register_forward_hook(keep)
    return found


def compare(
    monkeypatch: pytest.MonkeyPatch, vision: dict[str, Any], fill: Any, text: dict[str, Any] | None = None
) -> float:
    """Mean relative difference of the features in float16 from those in float32. Fails where a value overflows."""
    wide, wide_projector, _ = build(monkeypatch, "sdpa", "cpu", torch.float32, vision, text)
    half, half_projector, _ = build(monkeypatch, "sdpa", "cpu", torch.float16, vision, text)
    with torch.no_grad():
        fill(wide, wide_projector)
    half.load_state_dict(wide.state_dict())
    half_projector.load_state_dict(wide_projector.state_dict())
    pixels = torch.rand(PATCHES, 588, generator=torch.Generator().manual_seed(0)) * 2 - 1
    seen = peaks(half, half_projector)
    with torch.inference_mode():
        expected = wide_projector(wide(pixels, GRIDS))
        found = half_projector(half(pixels.half(), GRIDS)).float()
    assert bool(found.isfinite().all()) and bool(expected.isfinite().all())
    assert 0 < max(seen) < LARGEST / 4, "too near to an overflow"
    return float((found - expected).abs().mean() / expected.abs().mean())


def test_the_demo_weights(cpu_kernels, one_rank, monkeypatch):
    said = json.loads((DEMO_VLM / "config.json").read_text())

    def fill(tower: nn.Module, projector: nn.Module) -> None:
        # Loads vLLM's platform, which the simulated CANN must precede.
        from vllm.model_executor.models.utils import AutoWeightsLoader

        both = nn.ModuleDict({"visual": tower, "mlp_AR": projector})
        assert AutoWeightsLoader(both).load_weights(demo_tensors())

    assert compare(monkeypatch, said["vision_config"], fill, said) < 0.01


def test_random_weights_in_the_published_sizes(cpu_kernels, one_rank, monkeypatch):
    def fill(*modules: nn.Module) -> None:
        generator = torch.Generator().manual_seed(0)
        for module in modules:
            for parameter in module.parameters():
                spread = parameter.shape[-1] ** -0.5
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread + (parameter.ndim == 1))

    assert compare(monkeypatch, {}, fill) < 0.01
