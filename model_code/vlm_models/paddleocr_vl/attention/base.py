# SPDX-License-Identifier: Apache-2.0
"""What an attention backend must do. T: patches of all images of a pass, H: heads here, D: features of a head."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class PackedAttention(ABC):
    """Full attention inside each image of a packed batch, none between images."""

    # What VLM_ATTENTION calls it.
    name: str

    def __init__(self, head_dim: int) -> None:
        self.head_dim = head_dim
        self.scale = head_dim**-0.5

    @classmethod
    def supports(cls, device: torch.device, dtype: torch.dtype) -> bool:
        """Whether it runs on tensors of ``dtype`` on ``device``, with what is installed here."""
        return True

    @abstractmethod
    def plan(self, lengths: Sequence[int], device: torch.device) -> Any:
        """What :meth:`attend_rotated` needs to know about a pass, made once and used in every layer.

        Args:
            lengths: patches of each image, known on the host; nothing may be read back from the device.
        """

    @abstractmethod
    def attend_rotated(self, qkv: Tensor, cos: Tensor, sin: Tensor, plan: Any) -> Tensor:
        """softmax(q k^T / sqrt(D)) v per image, of queries and keys that are turned first.

        Args:
            qkv: [T, 3H, D] contiguous; queries, keys and values beside each other.
            cos, sin: as in :meth:`rotate`.

        Returns:
            [T, H, D], contiguous.
        """

    def rotate(self, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rotary embedding in half-split form, computed in float32.

        Args:
            heads: [T, n, D], queries and keys side by side, contiguous or not.
            cos, sin: [T, 1, D] float32, both halves of D equal.

        Returns:
            [T, n, D] in the dtype of ``heads``.
        """
        half = heads.shape[-1] // 2
        values = heads.float()
        rotated = values * cos
        rotated[..., :half].addcmul_(values[..., half:], sin[..., half:], value=-1)
        rotated[..., half:].addcmul_(values[..., :half], sin[..., :half])
        return rotated.to(heads.dtype)


class RotationFirst(PackedAttention):
    """Turns queries and keys in a step of its own, and then attends."""

    @abstractmethod
    def attend(self, query: Tensor, key: Tensor, value: Tensor, plan: Any) -> Tensor:
        """softmax(q k^T / sqrt(D)) v per image; all [T, H, D], same dtype; the result is contiguous."""

    def attend_rotated(self, qkv: Tensor, cos: Tensor, sin: Tensor, plan: Any) -> Tensor:
        heads = qkv.shape[1] // 3
        # One rotation for both.
        turned = self.rotate(qkv[:, : 2 * heads], cos, sin)
        query, key = turned.split(heads, dim=1)
        return self.attend(query, key, qkv[:, 2 * heads :], plan)
