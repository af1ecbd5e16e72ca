# SPDX-License-Identifier: Apache-2.0
"""Attention over packed images: one interface, one file for each kind of device."""

from __future__ import annotations

import torch

from .base import PackedAttention
from .bf16_cpu import BFloat16CpuAttention
from .flash import FlashAttention
from .npu import NpuAtb310PAttention, NpuAtbAttention, NpuFusionAttention
from .sdpa import SdpaAttention

# In the order in which a device's own choice is looked for.
BACKENDS: dict[str, type[PackedAttention]] = {
    backend.name: backend
    for backend in (
        BFloat16CpuAttention,
        FlashAttention,
        NpuFusionAttention,
        NpuAtbAttention,
        NpuAtb310PAttention,
        SdpaAttention,
    )
}


def packed_attention(
    device: torch.device, dtype: torch.dtype, head_dim: int, wanted: str | None = None
) -> PackedAttention:
    """The backend for heads of ``head_dim`` features of ``dtype`` on ``device``.

    Args:
        wanted: its name, from VLM_ATTENTION; None takes the first that supports device and type.

    Raises:
        ValueError: when that backend cannot run here.
    """
    if wanted is None:
        return next(backend for backend in BACKENDS.values() if backend.supports(device, dtype))(head_dim)
    if not BACKENDS[wanted].supports(device, dtype):
        able = ", ".join(name for name, backend in BACKENDS.items() if backend.supports(device, dtype))
        raise ValueError(
            f"VLM_ATTENTION is {wanted!r}, which does not run {dtype} on {device.type}; expected one of {able}"
        )
    return BACKENDS[wanted](head_dim)


__all__ = ["BACKENDS", "PackedAttention", "packed_attention"]
