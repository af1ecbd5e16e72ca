# SPDX-License-Identifier: Apache-2.0
"""The operators as they are called on a 310P: in float16, with the cache in tiles, and without graphs.

Those of the language model have the arguments that vllm-ascend v0.23.0 hands over (_310p: attention_v1,
attention_mask, rotary_embedding). Of its compiled extension it calls nothing there.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from . import on_npu, shapes
from .on_npu import HEAD_ARGUMENTS, TILES, block_table

TILE = 16
# Masks of any lengths: what a token does not see is above the diagonal of so many rows and columns.
COMPRESSED = 2048


def mask(value: float, device: torch.device) -> Tensor:
    return torch.full((COMPRESSED, COMPRESSED), value).triu(1).to(device, torch.float16)


def tiled(cache: Tensor) -> Tensor:
    """[blocks, block, heads, D] as [blocks, heads * D / 16, block, 16]."""
    parts = cache.flatten(2).unflatten(2, (-1, TILE)).transpose(1, 2).contiguous()
    return torch.ops.npu.npu_format_cast(parts, TILES)


def mrope(query: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    cos, sin = (
        torch.cat([half[positions[row]].split(shapes.SECTIONS, -1)[row] for row in range(len(shapes.SECTIONS))], -1)
        for half in table.chunk(2, -1)
    )
    cos, sin = (torch.cat((half, half), -1)[None, :, None].contiguous() for half in (cos, sin))
    heads = query.view(1, len(query), -1, shapes.HEAD_DIM)
    key = heads[:, :, : shapes.KEY_HEADS].contiguous()
    return torch.ops.npu.npu_apply_rotary_pos_emb(heads, key, cos, sin, rotary_mode="half")[0].view(query.shape)


def whole_prompts(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    out = torch.empty_like(query)
    parts = mask(-torch.inf, query.device).view(1, COMPRESSED, -1, TILE).transpose(1, 2).contiguous()
    torch.ops.atb._npu_flash_attention_v3(
        query=query,
        key=key,
        value=value,
        mask=torch.ops.npu.npu_format_cast(parts, TILES),
        seq_len=torch.tensor(shapes.PROMPTS, dtype=torch.int32, device="cpu"),
        mask_type=3,
        out=out,
        **HEAD_ARGUMENTS,
    )
    return out


def prefill(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    out = torch.empty_like(query)
    torch.ops.atb._npu_paged_attention_splitfuse_v2(
        query=query,
        key_cache=tiled(keys),
        value_cache=tiled(values),
        mask=mask(-10000.0, query.device),
        block_table=block_table(query.device),
        seq_len=torch.tensor(shapes.NEW, dtype=torch.int32, device="cpu"),
        context_lens=torch.tensor(shapes.CONTEXTS, dtype=torch.int32, device=query.device),
        mask_type=5,
        out=out,
        **HEAD_ARGUMENTS,
    )
    return out


def decode(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    # Lengths on the device: v0.23.0 copies them there.
    return on_npu.decode(query, tiled(keys), tiled(values), query.device)


def write(key: Tensor, value: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    caches = [tiled(cache) for cache in (keys, values)]
    slots = torch.tensor(shapes.SLOTS, dtype=torch.int32, device=key.device)
    torch.ops.atb._npu_reshape_and_cache(key, value, *caches, slots)
    plain = torch.stack([torch.ops.npu.npu_format_cast(cache, on_npu.PLAIN) for cache in caches])
    return plain.transpose(2, 3).reshape(2, *keys.shape)


SAME = ("linear, weight in tiles", "rms norm", "add and rms norm", "swiglu")
CALLS: dict[str, Callable[..., Tensor]] = {
    **{name: on_npu.CALLS[name] for name in SAME},
    "rotary, three axes": mrope,
    **{shapes.tower(images, "npu-atb"): on_npu.tower("npu-atb-310p", images) for images in shapes.PASSES},
    "write to the cache": write,
    "attention of whole prompts, ATB": whole_prompts,
    "attention of a prompt, ATB": prefill,
    "attention of one token, ATB": decode,
}
