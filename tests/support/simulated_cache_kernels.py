# SPDX-License-Identifier: Apache-2.0
"""CPU kernels under the names of the NPU operators that read the cache, for the check of a single die.

They are written from the calls of vllm-ascend (attention_v1 of 6664a4e and v0.13.0rc1) and strict, as those of
`simulated_language_kernels`. The reference of torch_npu leaves open what a device does with other layouts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tests.support.simulated_language_kernels import packed

TILES = 29


def npu_format_cast(value, acl_format, customize_dtype=None):
    """Only the layout in memory changes; here it stays."""
    if acl_format != TILES or value.dtype not in (torch.bfloat16, torch.float16) or customize_dtype is not None:
        raise ValueError(f"acl_format {acl_format} for {value.dtype}; bfloat16 or float16 in format {TILES}")
    return value.clone()


def one_sequence(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """The last tokens' causal attention over all; query [t, H, D], key and value [S, h, D]."""
    key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
    q, k, v = (x.double().transpose(0, 1) for x in (query, key, value))
    seen = torch.ones(len(query), len(key), dtype=torch.bool).tril(len(key) - len(query))
    scores = (q @ k.transpose(1, 2) * scale).masked_fill(~seen, -torch.inf)
    return (scores.softmax(-1) @ v).transpose(0, 1).to(query.dtype)


def gathered(cache: Tensor, blocks: Tensor, length: int, heads: int) -> Tensor:
    """A sequence's rows of the cache [blocks, block, heads * D] or [blocks, block, heads, D]."""
    if blocks.dtype != torch.int32 or length > len(blocks) * cache.shape[1]:
        raise ValueError(f"block_table row {blocks.tolist()} {blocks.dtype} for {length} tokens")
    return cache[blocks.long()].flatten(0, 1)[:length].view(length, heads, -1)


def npu_fused_infer_attention_score(
    query,
    key,
    value,
    *,
    atten_mask=None,
    actual_seq_lengths=None,
    actual_seq_lengths_kv=None,
    block_table=None,
    num_heads=1,
    scale=1.0,
    input_layout="BSH",
    num_key_value_heads=0,
    sparse_mode=0,
    block_size=0,
    **_,
):
    """TND over a paged cache: `actual_seq_lengths` are cumulative, `actual_seq_lengths_kv` are not; the mask of
    sparse_mode 3 is 2048 x 2048 whatever the lengths are."""
    packed(query=query, key=key, value=value, block_table=block_table, atten_mask=atten_mask)
    if input_layout != "TND" or sparse_mode != 3:
        raise ValueError(f"input_layout {input_layout!r}, sparse_mode {sparse_mode}")
    if atten_mask.shape != (2048, 2048) or not torch.equal(atten_mask.bool(), torch.ones(2048, 2048).triu(1).bool()):
        raise ValueError(f"atten_mask {tuple(atten_mask.shape)}: ones over the diagonal of 2048 x 2048 are expected")
    if key.ndim != 3 or block_size != key.shape[1] or block_size % 128 or query.shape[1] != num_heads:
        raise ValueError(f"block_size {block_size} for a cache {tuple(key.shape)}")
    begins = [0, *actual_seq_lengths[:-1]]
    if actual_seq_lengths[-1] != len(query) or not len(actual_seq_lengths_kv) == len(begins) == len(block_table):
        raise ValueError(f"lengths {actual_seq_lengths} and {actual_seq_lengths_kv} for {len(query)} tokens")
    found = []
    for row, begin, end, length in zip(block_table, begins, actual_seq_lengths, actual_seq_lengths_kv, strict=True):
        keys, values = (gathered(cache, row, length, num_key_value_heads) for cache in (key, value))
        found.append(one_sequence(query[begin:end], keys, values, scale))
    return torch.cat(found), query.new_empty(0)


def npu_paged_attention(
    query,
    key_cache,
    value_cache,
    num_kv_heads,
    num_heads,
    scale_value,
    block_table,
    context_lens,
    out,
    *,
    workspace=None,
):
    """One token of each sequence; `context_lens` int32 on the host."""
    packed(query=query, key_cache=key_cache, value_cache=value_cache, block_table=block_table, out=out)
    if context_lens.dtype != torch.int32 or context_lens.device.type != "cpu" or len(context_lens) != len(query):
        raise ValueError(f"context_lens {tuple(context_lens.shape)} {context_lens.dtype} on {context_lens.device}")
    if query.shape[1] != num_heads or key_cache.shape[2] != num_kv_heads or out.shape != query.shape:
        raise ValueError(f"query {tuple(query.shape)} for {num_heads} heads, cache {tuple(key_cache.shape)}")
    for index, length in enumerate(context_lens.tolist()):
        keys, values = (gathered(cache, block_table[index], length, num_kv_heads) for cache in (key_cache, value_cache))
        out[index : index + 1] = one_sequence(query[index : index + 1], keys, values, scale_value)


def register() -> None:
    """Put the kernels behind the wheel's own operators, which keep their schemas."""
    npu, atb = torch.library.Library("npu", "IMPL"), torch.library.Library("atb", "IMPL")
    npu.impl("npu_format_cast", npu_format_cast, "CPU")
    npu.impl("npu_fused_infer_attention_score", npu_fused_infer_attention_score, "CPU")
    atb.impl("_npu_paged_attention", npu_paged_attention, "CPU")
    KEPT.extend((npu, atb))


# A library's registrations end with the object.
KEPT: list[torch.library.Library] = []
