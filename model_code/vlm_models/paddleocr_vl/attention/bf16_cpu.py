# SPDX-License-Identifier: Apache-2.0
"""bfloat16 on processors that multiply it themselves (AVX512-BF16, AMX).

There PyTorch's own CPU attention multiplies in small blocks through float32 and reaches a third of what oneDNN's
bfloat16 products reach (docs/decisions/0104). So the products are taken one after another by oneDNN, over as
many heads and rows at a time as leave the scores in the cache, and what stands between them by kernels of our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from ... import kernels
from .base import PackedAttention

# Scores of one step for each thread: 1 MiB, the second-level cache of a core. Above it, a head's rows are cut up.
SCORES_PER_THREAD = 1 << 19
# The least number of rows in a block. Smaller products lose more time than the cache saves.
LEAST_ROWS = 256


class BFloat16CpuAttention(PackedAttention):
    """Scores and probabilities are rounded to bfloat16, as in eager implementations; sums are float32."""

    name = "cpu-bf16"

    def __init__(self, head_dim: int) -> None:
        super().__init__(head_dim)
        # Here, since other devices need no Numba.
        from ...kernels.attention import divide, exponentials

        self.exponentials, self.divide = exponentials(), divide()

    @classmethod
    def supports(cls, device: torch.device, dtype: torch.dtype) -> bool:
        return device.type == "cpu" and dtype == torch.bfloat16 and multiplies_bfloat16() and kernels.available()

    def plan(self, lengths: Sequence[int], device: torch.device) -> list[tuple[int, int]]:
        """(first, end) of each image."""
        return list(pairwise(accumulate(lengths, initial=0)))

    def attend_rotated(self, qkv: Tensor, cos: Tensor, sin: Tensor, plan: list[tuple[int, int]]) -> Tensor:
        from ...kernels.attention import split_heads

        patches, size = qkv.shape[0], self.head_dim
        count = qkv.shape[1] // 3
        split = split_heads(count, size)
        out = qkv.new_empty(patches, count, size)
        for start, end in plan:
            heads = qkv.new_empty(3, count, end - start, size)
            split(qkv[start:end], cos[start:end], sin[start:end], heads, end - start)
            self.one_image(heads, out[start:end])
        return out

    def one_image(self, heads: Tensor, out: Tensor) -> None:
        """heads [3, H, L, D]: scaled queries, keys, values; into out [L, H, D]; all contiguous."""
        query, key, value = heads[0], heads[1].transpose(1, 2), heads[2]
        count, length, size = query.shape
        threads = torch.get_num_threads()
        # As many heads for each thread as its cache holds the scores of: products and kernels share a step out in the
        # same way.
        group = even_part(count, threads * max(1, SCORES_PER_THREAD // length**2))
        rows = even_part(length, max(LEAST_ROWS, SCORES_PER_THREAD * threads // (group * length)))
        scores, sums = query.new_empty(group * rows * length), query.new_empty(group * rows, dtype=torch.float32)
        attended = query.new_empty(group * rows * size)
        for head in range(0, count, group):
            for row in range(0, length, rows):
                q = query[head : head + group, row : row + rows]
                some, part, _ = q.shape
                s = scores[: some * part * length].view(some, part, length)
                a = attended[: some * part * size].view(some, part, size)
                torch.bmm(q, key[head : head + some], out=s)
                self.exponentials(s, sums, some * part, length)
                torch.bmm(s, value[head : head + some], out=a)
                self.divide(a, sums, out[row:, head:], some, part, size, count * size)


def even_part(length: int, most: int) -> int:
    """Size of the parts when ``length`` is cut into as few equal ones of at most ``most`` as there can be."""
    return -(-length // -(-length // most))


def multiplies_bfloat16() -> bool:
    """Whether this processor has instructions for bfloat16 products that oneDNN uses."""
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return torch.backends.mkldnn.is_available() and any(getattr(torch.cpu, probe, bool)() for probe in probes)
