# SPDX-License-Identifier: Apache-2.0
"""CPU kernels under the names of the operators that a 310P has, for the tower and for vllm-ascend's language model.

Strict, by the restrictions of ATB's SelfAttentionOperation (PA_ENCODER) and PagedAttentionOperation for "Atlas
inference products": float16 alone, heads of a multiple of 16 features, at most 2000 sequences, a cache in tiles whose
block times head is at most 128 * 128. Masks are those that upstream's v0.23.0 hands over. What such a card lacks fails
at every call. Rows of a prompt need not be a multiple of 16 here, although the reference rounds them up: upstream does
not fill them up for the language model. The tower's must be.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from tests.support import simulated_language_kernels as language
from tests.support import simulated_npu_kernels as tower
from tests.support.simulated_attention_kernels import lengths_on_host
from tests.support.simulated_language_kernels import KEPT, packed, rows

TILE, MOST_SEQUENCES, BLOCK_LIMIT = 16, 2000, 128 * 128
PLAIN, TILES = 2, 29
COMPRESSED = 2048
# Not in CANN for these cards, or not by the reference of torch_npu.
LACKING = {
    "npu": ("npu_fusion_attention", "npu_fused_infer_attention_score", "npu_mrope"),
    "atb": ("_npu_flash_attention_qlens",),
}


def half(**tensors: Tensor) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float16:
            raise ValueError(f"{name} is {tensor.dtype}; a 310P has float16")


def lacking(name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"{name} is not offered on a 310P")

    return refuse


def npu_format_cast(value, acl_format, customize_dtype=None):
    """Only the layout in memory changes; here it stays. A matrix of one row or column cannot be in tiles (upstream's
    ops/linear.py)."""
    half(value=value)
    if acl_format not in (PLAIN, TILES) or customize_dtype is not None or 1 in value.shape[-2:]:
        raise ValueError(f"acl_format {acl_format} for {tuple(value.shape)}")
    return value.clone()


def empty_with_format(size, dtype, device, acl_format):
    if dtype != torch.float16 or acl_format != TILES:
        raise ValueError(f"a cache of {dtype} in layout {acl_format}")
    return torch.full(tuple(size), torch.nan, dtype=dtype)  # memory as it was


def check_tiles(cache: Tensor, heads: int) -> None:
    """A cache [blocks, heads * D / 16, block, 16]."""
    half(cache=cache)
    packed(cache=cache)
    _, parts, block, tile = cache.shape
    width = parts * tile // heads
    if tile != TILE or parts * tile % heads or width % TILE or block % TILE or block * width > BLOCK_LIMIT:
        raise ValueError(f"a cache {tuple(cache.shape)} for {heads} heads")


def pages(cache: Tensor, heads: int, table: Tensor, length: int) -> Tensor:
    """The first tokens of a request, [length, heads, D], from the blocks that its row of the table names."""
    found = cache[table.long()[: -(-length // cache.shape[2])]].transpose(1, 2)
    return found.reshape(-1, heads, cache.shape[1] * TILE // heads)[:length]


@functools.cache
def causal(value: float) -> Tensor:
    return torch.full((COMPRESSED, COMPRESSED), value).triu(1).half()


def check(query: Tensor, heads: int, key_heads: int, requests: int, out: Tensor, **others: Tensor) -> None:
    half(query=query, out=out, **others)
    if query.ndim != 3 or query.shape[1] != heads or heads % key_heads or query.shape[2] % TILE:
        raise ValueError(f"{heads} heads and {key_heads} key heads for a query {tuple(query.shape)}")
    if out.shape != query.shape or not out.is_contiguous() or not 0 < requests <= MOST_SEQUENCES:
        raise ValueError(f"out {tuple(out.shape)} for {tuple(query.shape)}, {requests} sequences")


def flash_attention(query, key, value, mask, seq_len, scale_value, num_heads, num_kv_heads, *, mask_type=3, out):
    """Whole prompts, one after another; the mask [1, 128, 2048, 16] in tiles, -inf where nothing is looked at."""
    check(query, num_heads, num_kv_heads, len(seq_len), out, key=key, value=value, mask=mask)
    rows(query=query, key=key, value=value)
    expected = causal(-torch.inf).view(COMPRESSED, COMPRESSED // TILE, TILE).transpose(0, 1)[None]
    if mask_type != 3 or not torch.equal(mask, expected):
        raise ValueError(f"mask_type {mask_type} with a mask {tuple(mask.shape)}")
    lengths = lengths_on_host(seq_len, len(seq_len))
    if sum(lengths) != len(query) or min(lengths) < 1 or key.shape != value.shape or key.shape[1] != num_kv_heads:
        raise ValueError(f"lengths {lengths} for {len(query)} tokens, keys {tuple(key.shape)}")
    parts = zip(query.split(lengths), key.split(lengths), value.split(lengths), strict=True)
    out.copy_(torch.cat([tower.attend(q, k, v, scale_value, causal=True) for q, k, v in parts]))


def flash_attention_unpad(query, key, value, seq_len, scale_value, num_heads, num_kv_heads, out):
    """The tower's: rows a multiple of 16."""
    check(query, num_heads, num_kv_heads, len(seq_len), out, key=key, value=value)
    if len(query) % TILE:
        raise ValueError(f"{len(query)} rows; a multiple of {TILE} is expected")
    tower.npu_flash_attention_unpad(query, key, value, seq_len, scale_value, num_heads, num_kv_heads, out)


def over_the_cache(query, caches, heads, table, new, contexts, scale, out) -> None:
    """Causal attention of each request's last tokens over the blocks that its row of the table names."""
    for cache in caches:
        check_tiles(cache, heads)
    block = caches[0].shape[2]
    if table.dtype != torch.int32 or table.ndim != 2 or len(table) < len(contexts):
        raise ValueError(f"block_table {tuple(table.shape)} {table.dtype} for {len(contexts)} requests")
    start = 0
    for row, (count, length) in enumerate(zip(new, contexts, strict=True)):
        if not 0 < count <= length <= table.shape[1] * block:
            raise ValueError(f"{count} new tokens of {length} in {table.shape[1]} blocks of {block}")
        key, value = (pages(cache, heads, table[row], length) for cache in caches)
        out[start : start + count] = tower.attend(query[start : start + count], key, value, scale, causal=True)
        start += count
    if start != len(query):
        raise ValueError(f"{start} new tokens in {len(query)} rows")


def paged_attention(
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
    """One new token of each request."""
    check(query, num_heads, num_kv_heads, len(context_lens), out)
    contexts = lengths_on_host(context_lens, len(query))
    caches = (key_cache, value_cache)
    over_the_cache(query, caches, num_kv_heads, block_table, [1] * len(query), contexts, scale_value, out)


def splitfuse(
    query,
    key_cache,
    value_cache,
    block_table,
    context_lens,
    mask,
    seq_len,
    num_kv_heads,
    num_heads,
    scale_value,
    *,
    mask_type=5,
    out,
):
    """New tokens of each request, prompts beside single ones; a plain mask [2048, 2048], -10000 over the diagonal."""
    check(query, num_heads, num_kv_heads, len(seq_len), out, mask=mask)
    if mask_type != 5 or not torch.equal(mask, causal(-10000.0)):
        raise ValueError(f"mask_type {mask_type} with a mask {tuple(mask.shape)}")
    new, contexts = (lengths_on_host(lengths, len(seq_len)) for lengths in (seq_len, context_lens))
    caches = (key_cache, value_cache)
    over_the_cache(query, caches, num_kv_heads, block_table, new, contexts, scale_value, out)


def reshape_and_cache(key, value, key_cache, value_cache, slot_indices):
    """key, value [tokens, heads, D] to the slots [tokens] int32 of caches in tiles."""
    half(key=key, value=value)
    rows(key=key, value=value)
    if slot_indices.dtype != torch.int32 or slot_indices.shape != key.shape[:1] or key.shape != value.shape:
        raise ValueError(f"slots {tuple(slot_indices.shape)} {slot_indices.dtype} for {tuple(key.shape)}")
    for cache, part in ((key_cache, key), (value_cache, value)):
        check_tiles(cache, part.shape[1])
        block = cache.shape[2]
        slots = slot_indices.long()
        cache[slots // block, :, slots % block] = part.flatten(1).unflatten(1, (-1, TILE))


def apply_rotary_pos_emb(query, key, cos, sin, layout="BSND", rotary_mode="half"):
    """query, key [1, tokens, heads, D] with cos, sin [1, tokens, 1, D], both halves of D equal; D 64 or 128."""
    half(query=query, key=key, cos=cos, sin=sin)
    packed(query=query, key=key, cos=cos, sin=sin)
    expected = (1, query.shape[1], 1, query.shape[3])
    if rotary_mode != "half" or layout not in ("BSND", "1") or query.shape[3] not in (64, 128):
        raise ValueError(f"rotary_mode {rotary_mode!r}, layout {layout!r}, heads of {query.shape[3]}")
    if query.shape[:2] != key.shape[:2] or cos.shape != expected or sin.shape != expected:
        raise ValueError(f"cos {tuple(cos.shape)} for {tuple(query.shape)} and {tuple(key.shape)}")
    return tuple(tower.npu_rotary_mul(part, cos, sin) for part in (query, key))


def in_half(kernel: Any) -> Any:
    """A kernel of simulated_language_kernels, for this card's number format."""

    def checked(value, *others, **named):
        half(value=value)
        return kernel(value, *others, **named)

    return checked


def register() -> None:
    """Put the kernels behind the wheel's own operators, which keep their schemas. For a process that is a 310P's."""
    npu, atb = torch.library.Library("npu", "IMPL"), torch.library.Library("atb", "IMPL")
    for name in ("npu_rms_norm", "npu_add_rms_norm", "npu_swiglu"):
        npu.impl(name, in_half(getattr(language, name)), "CPU")
    npu.impl("npu_rotary_mul", tower.npu_rotary_mul, "CPU")
    npu.impl("npu_apply_rotary_pos_emb", apply_rotary_pos_emb, "CPU")
    npu.impl("npu_format_cast", npu_format_cast, "CPU")
    atb.impl("_npu_flash_attention_v3", flash_attention, "CPU")
    atb.impl("_npu_flash_attention_unpad", flash_attention_unpad, "CPU")
    # torch_npu has no shape function for this one; it writes to `out` and returns nothing.
    atb.impl("_npu_flash_attention_unpad", lambda *_, **__: None, "Meta")
    atb.impl("_npu_paged_attention", paged_attention, "CPU")
    atb.impl("_npu_paged_attention_splitfuse_v2", splitfuse, "CPU")
    atb.impl("_npu_reshape_and_cache", reshape_and_cache, "CPU")
    for library, names in ((npu, LACKING["npu"]), (atb, LACKING["atb"])):
        for name in names:
            library.impl(name, lacking(name), "CPU")
    KEPT.extend((npu, atb))
