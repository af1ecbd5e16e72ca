# SPDX-License-Identifier: Apache-2.0
"""CPU kernels under the names of the attention operators that vllm-ascend calls for the language model.

Written from the references of torch_npu and ATB, and from what both stacks of vllm-ascend hand over where these leave
something open. An argument that they do not allow is an error. Sums are in float64, so that only the last rounding
differs from the expected values.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tests.support.simulated_language_kernels import KEPT, packed, rows
from tests.support.simulated_npu_kernels import attend

DTYPES = (torch.float16, torch.bfloat16)
# The mask that sparse_mode 3 wants: its upper triangle is left out, aligned to the last token of each request.
COMPRESSED = (2048, 2048)
LAYOUTS = (2, 29)  # ACL's numbers of layouts in memory that weights and caches are cast to: plain, and tiles


def npu_format_cast(value, acl_format, customize_dtype=None):
    """Only the layout in memory changes; here it stays."""
    if acl_format not in LAYOUTS or value.dtype not in DTYPES or customize_dtype is not None:
        raise ValueError(f"acl_format {acl_format} for {value.dtype}; one of {DTYPES} in one of {LAYOUTS} is expected")
    return value.clone()


def check_heads(query: Tensor, heads: int, key_heads: int, *others: Tensor) -> None:
    if query.ndim != 3 or query.shape[1] != heads or not key_heads or heads % key_heads or query.shape[2] % 16:
        raise ValueError(f"{heads} heads and {key_heads} key heads for a query {tuple(query.shape)}")
    if query.dtype not in DTYPES or any(other.dtype != query.dtype for other in others):
        raise ValueError(f"{query.dtype} with {[other.dtype for other in others]}; expected one of {DTYPES}")


def lengths_on_host(lengths: Tensor, requests: int) -> list[int]:
    """ATB reads lengths on the host, as int32."""
    if lengths.dtype != torch.int32 or lengths.device.type != "cpu" or lengths.shape != (requests,):
        raise ValueError(f"lengths {tuple(lengths.shape)} {lengths.dtype} on {lengths.device} for {requests} requests")
    return lengths.tolist()


def pages(cache: Tensor, table: Tensor, length: int) -> Tensor:
    """The first tokens of one request, from the blocks that its row of the table names."""
    if length < 1 or length > len(table) * cache.shape[1]:
        raise ValueError(f"{length} tokens in {len(table)} blocks of {cache.shape[1]}")
    return cache[table.long()].flatten(0, 1)[:length]


def npu_flash_attention(query, key, value, mask, seq_len, scale_value, num_heads, num_kv_heads, out):
    """Whole requests one after another; mask [longest, longest] of the query's dtype, 1 where nothing is looked at.

    Rows after the last request are filling, as graphs of fixed sizes have it.
    """
    check_heads(query, num_heads, num_kv_heads, key, value, mask, out)
    rows(query=query, key=key, value=value)
    packed(mask=mask, out=out)
    if key.shape != value.shape or key.shape[1] != num_kv_heads or out.shape != query.shape:
        raise ValueError(f"key {tuple(key.shape)}, value {tuple(value.shape)}, out {tuple(out.shape)}")
    lengths = lengths_on_host(seq_len, len(seq_len))
    longest = max(lengths)
    if sum(lengths) > len(query) or min(lengths) < 1 or mask.shape != (longest, longest):
        raise ValueError(f"lengths {lengths} and a mask {tuple(mask.shape)} for {len(query)} tokens")
    if not torch.equal(mask.float(), torch.ones(longest, longest).triu(1)):
        raise ValueError("a causal mask is expected: 1 above the diagonal, 0 elsewhere")
    start = 0
    for length in lengths:
        end = start + length
        out[start:end] = attend(query[start:end], key[start:end], value[start:end], scale_value, causal=True)
        start = end


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
    """One new token of each request; caches [blocks, block, key heads, dim], which hold it already."""
    check_heads(query, num_heads, num_kv_heads, key_cache, value_cache, out)
    packed(query=query, key_cache=key_cache, value_cache=value_cache, block_table=block_table, out=out)
    if key_cache.shape != value_cache.shape or key_cache.shape[2] != num_kv_heads or out.shape != query.shape:
        raise ValueError(f"caches {tuple(key_cache.shape)}, {tuple(value_cache.shape)}, out {tuple(out.shape)}")
    lengths = lengths_on_host(context_lens, len(query))
    check_table(block_table, len(lengths))
    for row, length in enumerate(lengths):
        key, value = (pages(cache, block_table[row], length) for cache in (key_cache, value_cache))
        out[row : row + 1] = attend(query[row : row + 1], key, value, scale_value, causal=True)


def check_table(table: Tensor, requests: int) -> None:
    if table.dtype != torch.int32 or table.ndim != 2 or len(table) != requests:
        raise ValueError(f"block_table {tuple(table.shape)} {table.dtype} for {requests} requests")


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
    **others,
):
    """TND with sparse_mode 3, or without a mask with 0. Lengths of queries are cumulative and cover all rows. A request
    without keys is filling, as the full graphs of vllm-ascend 0.23.0 have it: its rows are zeros.

    With a block table: key and value [blocks, block, key heads * dim], their lengths those of each request. Without:
    [tokens, key heads, dim], their lengths cumulative.
    """
    causal = atten_mask is not None
    if input_layout != "TND" or sparse_mode != (3 if causal else 0):
        raise ValueError(f"input_layout {input_layout!r} with sparse_mode {sparse_mode}; expected TND and 3, or 0")
    usual = {"pre_tokens": 2147483647, "next_tokens": 2147483647}
    if odd := {name: given for name, given in others.items() if given not in (None, 0, False, usual.get(name))}:
        raise ValueError(f"{odd} is not covered")
    check_heads(query, num_heads, num_key_value_heads, key, value)
    if causal and (atten_mask.shape != COMPRESSED or atten_mask.dtype not in (torch.int8, torch.bool)):
        raise ValueError("a mask [2048, 2048] of int8 or bool is expected")
    if causal and not torch.equal(atten_mask.bool(), torch.ones(COMPRESSED, dtype=torch.bool).triu(1)):
        raise ValueError("the compressed mask is 1 above its diagonal, 0 elsewhere")
    ends, kv = list(actual_seq_lengths or ()), list(actual_seq_lengths_kv or ())
    starts = [0, *ends[:-1]]
    if not ends or ends[-1] != len(query) or any(a >= b for a, b in zip(starts, ends, strict=True)):
        raise ValueError(f"actual_seq_lengths {ends} is no list of cumulative lengths of {len(query)} tokens")
    if len(kv) != len(ends):
        raise ValueError(f"actual_seq_lengths_kv {kv} for {len(ends)} requests")
    width = num_key_value_heads * query.shape[2]
    if block_table is None:
        rows(query=query, key=key, value=value)
        if kv != ends or key.shape != value.shape or key.shape[0] != ends[-1] or key[0].numel() != width:
            raise ValueError(f"lengths {kv} of keys {tuple(key.shape)}, with queries {ends}")
        parts = [(key[a:b], value[a:b]) for a, b in zip(starts, ends, strict=True)]
    else:
        packed(query=query, key=key, value=value, block_table=block_table)
        if key.shape != value.shape or key.shape[1:] != (block_size, width) or block_size % 128:
            raise ValueError(f"caches {tuple(key.shape)}, {tuple(value.shape)} with blocks of {block_size}")
        check_table(block_table, len(kv))
        heads = (num_key_value_heads, query.shape[2])
        parts = [
            tuple(pages(cache, block_table[row], length).unflatten(-1, heads) for cache in (key, value))
            if length
            else ()
            for row, length in enumerate(kv)
        ]
    if any(part and len(part[0]) < b - a for part, a, b in zip(parts, starts, ends, strict=True)):
        raise ValueError(f"actual_seq_lengths_kv {kv} is shorter than the queries {ends}")
    done = [
        attend(query[a:b], *part, scale, causal=causal) if part else torch.zeros_like(query[a:b])
        for part, a, b in zip(parts, starts, ends, strict=True)
    ]
    return torch.cat(done), query.new_empty(0)


def into_memory(query, key, value, *, out, workspace=None, **given):
    """The same with its result in `out`, as graphs want it: attention and the logarithms of its sums, which nobody asks
    for here. The workspace is what the function below gives."""
    if workspace is None or len(out) != 2 or out[0].shape != query.shape:
        raise ValueError(f"workspace {workspace}, out {[tuple(part.shape) for part in out]}; expected {query.shape}")
    out[0].copy_(npu_fused_infer_attention_score(query, key, value, **given)[0])
    return out[0], out[1]


def workspace(query, key, value, **_):
    return query.new_empty(1)


def register() -> None:
    """Put the kernels behind the wheel's own operators, which keep their schemas."""
    npu, atb = torch.library.Library("npu", "IMPL"), torch.library.Library("atb", "IMPL")
    npu.impl("npu_format_cast", npu_format_cast, "CPU")
    npu.impl("npu_fused_infer_attention_score", npu_fused_infer_attention_score, "CPU")
    npu.impl("npu_fused_infer_attention_score.out", into_memory, "CPU")
    npu.impl("_npu_fused_infer_attention_score_get_max_workspace", workspace, "CPU")
    atb.impl("_npu_flash_attention", npu_flash_attention, "CPU")
    atb.impl("_npu_paged_attention", npu_paged_attention, "CPU")
    KEPT.extend((npu, atb))
