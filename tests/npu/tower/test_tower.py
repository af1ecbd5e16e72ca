# SPDX-License-Identifier: Apache-2.0
"""The whole tower with the NPU's operators: traced without data, and compared with the tower on PyTorch's attention."""

from __future__ import annotations

import pytest
import torch

from tests.npu.towers import build

GRIDS = [(1, 8, 12), (1, 4, 4), (1, 20, 6)]
SMALL = {"hidden_size": 96, "intermediate_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2}
PATCHES = sum(rows * columns for _, rows, columns in GRIDS)


@pytest.mark.parametrize("backend", ["npu-fusion", "npu-atb"])
def test_trace_of_the_published_shapes(cpu_kernels, one_rank, monkeypatch, backend):
    """A tensor without data cannot be read: one look at a length or a value from the host would raise."""
    tower, projector, config = build(monkeypatch, backend, "meta", torch.bfloat16, {})
    assert len(tower.vision_model.encoder.layers) == 27
    pixels = torch.empty(PATCHES, 588, dtype=torch.bfloat16, device="meta")
    features = projector(tower(pixels, GRIDS))
    assert features.shape == (PATCHES // 4, config.text_config.hidden_size) and features.device.type == "meta"


@pytest.mark.parametrize("backend", ["npu-fusion", "npu-atb"])
def test_numbers(cpu_kernels, one_rank, monkeypatch, backend):
    tower, projector, _ = build(monkeypatch, backend, "cpu", torch.float32, SMALL)
    plain, plain_projector, _ = build(monkeypatch, "sdpa", "cpu", torch.float32, SMALL)
    generator = torch.Generator().manual_seed(0)
    for module, other in ((tower, plain), (projector, plain_projector)):
        with torch.no_grad():
            for parameter in module.parameters():
                spread = parameter.shape[-1] ** -0.5
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread + (parameter.ndim == 1))
        other.load_state_dict(module.state_dict())
    pixels = torch.randn(PATCHES, 588, generator=generator)
    with torch.inference_mode():
        ours, expected = projector(tower(pixels, GRIDS)), plain_projector(plain(pixels, GRIDS))
    assert expected.std() > 0.01
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
