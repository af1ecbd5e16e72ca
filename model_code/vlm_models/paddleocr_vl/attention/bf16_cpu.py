# SPDX-License-Identifier: Apache-2.0
"""bfloat16 on processors that multiply it themselves (AVX512-BF16, AMX).

There PyTorch's own CPU attention multiplies in small blocks through float32 and reaches a third of what oneDNN's
bfloat16 products reach (docs/decisions/0104). So the three steps are taken one after another, over as
many heads and rows at a time as leave the scores in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .base import PackedAttention

# Scores of one step. Several heads share a step up to the first bound (2 MiB: the second-level caches of two
# cores), and one head is cut into blocks of rows above the second (8 MiB: a share of the third level).
SHARED_SCORES = 1 << 20
MAX_SCORES = 1 << 22


class BFloat16CpuAttention(PackedAttention):
    """Scores and probabilities are rounded to bfloat16, as in eager implementations; sums are float32."""

    name = "cpu-bf16"

    @classmethod
    def supports(cls, device: torch.device, dtype: torch.dtype) -> bool:
        return device.type == "cpu" and dtype == torch.bfloat16 and multiplies_bfloat16()

    def plan(self, lengths: Sequence[int], device: torch.device) -> list[tuple[int, int]]:
        """(first, end) of each image."""
        spans, start = [], 0
        for length in lengths:
            spans.append((start, start + length))
            start += length
        return spans

    def attend(self, query: Tensor, key: Tensor, value: Tensor, plan: list[tuple[int, int]]) -> Tensor:
        out = torch.empty_like(query, memory_format=torch.contiguous_format)
        for start, end in plan:
            q, k, v = (x[start:end].transpose(0, 1).contiguous() for x in (query, key, value))
            out[start:end] = self.one_image(q, k.transpose(1, 2), v).transpose(0, 1)
        return out

    def one_image(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """query, value [H, L, D] contiguous, key [H, D, L]; returns [H, L, D]."""
        heads, length, _ = query.shape
        group = min(heads, max(1, SHARED_SCORES // length**2))
        rows = min(length, max(1, MAX_SCORES // length))
        out = torch.empty_like(query)
        # Only its shape is looked at: with beta=0 nothing is added.
        nothing = query.new_empty(()).expand(group, rows, length)
        for first in range(0, heads, group):
            part = slice(first, first + group)
            for row in range(0, length, rows):
                q = query[part, row : row + rows]
                # The scale is applied to the float32 sum, before it is rounded.
                scores = torch.baddbmm(nothing[: q.shape[0], : q.shape[1]], q, key[part], beta=0, alpha=self.scale)
                out[part, row : row + rows] = torch.bmm(torch.softmax(scores, dim=-1), value[part])
        return out


def multiplies_bfloat16() -> bool:
    """Whether this processor has instructions for bfloat16 products that oneDNN uses."""
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return torch.backends.mkldnn.is_available() and any(getattr(torch.cpu, probe, bool)() for probe in probes)
