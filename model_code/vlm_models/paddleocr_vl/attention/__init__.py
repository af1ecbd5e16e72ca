# SPDX-License-Identifier: Apache-2.0
"""Attention over packed images: one interface, one file for each kind of device."""

from __future__ import annotations

import torch

from .base import PackedAttention
from .sdpa import SdpaAttention

# Device type -> backend. A device that is not named runs PyTorch's own attention.
BACKENDS: dict[str, type[PackedAttention]] = {}


def packed_attention(device: torch.device, head_dim: int) -> PackedAttention:
    """The backend for tensors on ``device`` with heads of ``head_dim`` features."""
    return BACKENDS.get(device.type, SdpaAttention)(head_dim)


__all__ = ["BACKENDS", "PackedAttention", "packed_attention"]
