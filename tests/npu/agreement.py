# SPDX-License-Identifier: Apache-2.0
"""The comparison that the NPU backends must pass, and that a broken one must not."""

from __future__ import annotations

import torch

LENGTHS = [12, 4, 40, 4]
HEADS, HEAD_DIM = 4, 72


def example(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """QKV of a packed batch [T, 3 * HEADS, HEAD_DIM], and cos, sin [T, 1, HEAD_DIM] with equal halves."""
    generator = torch.Generator().manual_seed(0)
    patches = sum(LENGTHS)
    qkv = torch.randn(patches, 3 * HEADS, HEAD_DIM, generator=generator).to(dtype)
    angle = torch.rand(patches, 1, HEAD_DIM // 2, generator=generator) * 6
    angle = torch.cat((angle, angle), dim=-1)
    return qkv, angle.cos(), angle.sin()


def attend(backend, dtype: torch.dtype) -> torch.Tensor:
    """What the tower does with a backend in each layer."""
    qkv, cos, sin = example(dtype)
    return backend.attend_rotated(qkv, cos, sin, backend.plan(LENGTHS, qkv.device))


def check(backend, dtype: torch.dtype) -> None:
    """Raise unless the backend agrees with PyTorch's attention and our own rotation."""
    from vlm_models.paddleocr_vl.attention.sdpa import SdpaAttention

    ours, expected = attend(backend, dtype), attend(SdpaAttention(HEAD_DIM), dtype)
    assert ours.is_contiguous() and ours.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(ours, expected, rtol=tolerance, atol=tolerance)
