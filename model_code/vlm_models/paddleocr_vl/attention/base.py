# SPDX-License-Identifier: Apache-2.0
"""What an attention backend must do. T: patches of all images of a batch, H: heads here, D: features of a head."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class PackedAttention(ABC):
    """Full attention inside each image of a packed batch, none between images."""

    def __init__(self, head_dim: int) -> None:
        self.head_dim = head_dim
        self.scale = head_dim**-0.5

    @abstractmethod
    def plan(self, lengths: Sequence[int], device: torch.device) -> Any:
        """What :meth:`attend` needs to know about a batch, made once and used in every layer.

        Args:
            lengths: patches of each image, known on the host; nothing may be read back from the device.
        """

    @abstractmethod
    def attend(self, query: Tensor, key: Tensor, value: Tensor, plan: Any) -> Tensor:
        """softmax(q k^T / sqrt(D)) v per image; all [T, H, D], same dtype."""

    def rotate(self, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rotary embedding in half-split form, computed in float32.

        Args:
            heads: [T, n, D], queries and keys side by side, contiguous or not.
            cos, sin: [T, 1, D] float32, both halves of D equal.

        Returns:
            [T, n, D] in the dtype of ``heads``.
        """
        half = heads.shape[-1] // 2
        first, second = heads[..., :half].float(), heads[..., half:].float()
        cos, sin = cos[..., :half], sin[..., :half]
        rotated = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
        return rotated.to(heads.dtype)
