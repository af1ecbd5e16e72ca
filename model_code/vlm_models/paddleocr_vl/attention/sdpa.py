# SPDX-License-Identifier: Apache-2.0
"""PyTorch's scaled_dot_product_attention: any device without a backend of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .base import RotationFirst

# (first patch, images, patches of each)
Run = tuple[int, int, int]


class SdpaAttention(RotationFirst):
    """It takes no packed lengths: neighbours of one length share a call, others get one each."""

    name = "sdpa"

    def plan(self, lengths: Sequence[int], device: torch.device) -> list[Run]:
        runs: list[Run] = []
        start = 0
        for length in lengths:
            if runs and runs[-1][2] == length:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1, length)
            else:
                runs.append((start, 1, length))
            start += length
        return runs

    def attend(self, query: Tensor, key: Tensor, value: Tensor, plan: list[Run]) -> Tensor:
        out = torch.empty_like(query, memory_format=torch.contiguous_format)
        for start, images, length in plan:
            q, k, v = (
                x[start : start + images * length].unflatten(0, (images, length)).transpose(1, 2)
                for x in (query, key, value)
            )
            attended = F.scaled_dot_product_attention(q, k, v, scale=self.scale)
            out[start : start + images * length] = attended.transpose(1, 2).flatten(0, 1)
        return out
