# SPDX-License-Identifier: Apache-2.0
"""XD-RoPE as transformers' class computes it: each quarter of a head turns by an axis of its own.

vLLM's own gives the axes to quarters of each half instead, so that the two numbers of a pair turn by one angle.
The published weights were trained with the other; text, whose axes are equal, is the same by both.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class XDRotation(nn.Module):
    """Turns queries and keys in every layer. ``table`` [positions, head] holds cosines, then sines, of half a head."""

    table: Tensor

    def __init__(self, table: Tensor, sections: list[int]) -> None:
        super().__init__()
        self.register_buffer("table", table, persistent=False)
        self.widths = [2 * section for section in sections]

    def forward(self, positions: Tensor, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """``positions`` [axes, tokens] int64, ``query`` and ``key`` [tokens, heads * head]; the same shapes again."""
        cosines, sines = (self.by_axis(half, query.dtype) for half in self.table[positions].chunk(2, dim=-1))
        return turned(query, cosines, sines), turned(key, cosines, sines)

    def by_axis(self, half: Tensor, dtype: torch.dtype) -> Tensor:
        """[tokens, 1, head] of [axes, tokens, half a head]: the first widths from axis 0, the next from axis 1."""
        parts = torch.cat((half, half), dim=-1).split(self.widths, dim=-1)
        return torch.cat([part[axis] for axis, part in enumerate(parts)], dim=-1).unsqueeze(1).to(dtype)


def turned(values: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """[tokens, heads * head] turned by angles that are the same for all heads."""
    heads = values.view(len(values), -1, cosines.shape[-1])
    first, second = heads.chunk(2, dim=-1)
    return (heads * cosines + torch.cat((-second, first), dim=-1) * sines).view(values.shape)
