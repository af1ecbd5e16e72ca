# SPDX-License-Identifier: Apache-2.0
"""The operators as they are called on an NPU.

The tower's come from our own attention backends. The language model's are called with the arguments that both stacks
of vllm-ascend use for it (attention_v1, layernorm, activation, rotary_embedding of 6664a4e and v0.13.0rc1).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from vlm_models.paddleocr_vl.attention import BACKENDS

from . import shapes

# ACL_FORMAT_FRACTAL_NZ: tiles of 16 x 16, in which vllm-ascend can keep the weights of linear layers.
TILES = 29
SCALE = shapes.HEAD_DIM**-0.5


def in_tiles(value: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(value, torch.ops.npu.npu_format_cast(weight, TILES), bias)


def mrope(query: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    key = query[:, : shapes.KEY_HEADS * shapes.HEAD_DIM].contiguous()
    sections = list(shapes.SECTIONS)
    return torch.ops.npu.npu_mrope(
        positions, query, key, table, shapes.HEAD_DIM, mrope_section=sections, rotary_mode="half"
    )[0]


def tower(backend: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def attend(qkv: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        own = BACKENDS[backend](shapes.VISION_HEAD_DIM)
        return own.attend_rotated(qkv, cos, sin, own.plan(shapes.IMAGES, qkv.device))

    return attend


def block_table(device: torch.device) -> Tensor:
    return torch.tensor(shapes.BLOCK_TABLE, dtype=torch.int32, device=device)


def prefill(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return torch.ops.npu.npu_fused_infer_attention_score(
        query,
        keys.flatten(2),
        values.flatten(2),
        # The mask that sparse_mode 3 wants, whatever the lengths are: ones over the diagonal.
        atten_mask=torch.ones(2048, 2048).triu(1).to(torch.int8).to(query.device),
        block_table=block_table(query.device),
        input_layout="TND",
        block_size=shapes.BLOCK,
        actual_seq_lengths=shapes.ends(shapes.NEW),
        actual_seq_lengths_kv=list(shapes.CONTEXTS),
        num_key_value_heads=shapes.KEY_HEADS,
        num_heads=shapes.HEADS,
        scale=SCALE,
        sparse_mode=3,
    )[0]


def decode(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    out = torch.empty_like(query)
    torch.ops.atb._npu_paged_attention(
        query=query,
        key_cache=keys,
        value_cache=values,
        num_kv_heads=shapes.KEY_HEADS,
        num_heads=shapes.HEADS,
        scale_value=SCALE,
        block_table=block_table(query.device),
        # On the host, as the runner has them.
        context_lens=torch.tensor(shapes.CONTEXTS, dtype=torch.int32, device="cpu"),
        out=out,
    )
    return out


def write(key: Tensor, value: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    slots = torch.tensor(shapes.SLOTS, dtype=torch.int32, device=key.device)
    torch.ops.atb._npu_reshape_and_cache(key, value, keys, values, slots)
    return torch.stack((keys, values))


CALLS: dict[str, Callable[..., Tensor]] = {
    "linear, weight in tiles": in_tiles,
    "rms norm": lambda value, weight: torch.ops.npu.npu_rms_norm(value, weight, shapes.EPSILON)[0],
    "add and rms norm": lambda value, other, weight: torch.ops.npu.npu_add_rms_norm(
        value, other, weight, shapes.EPSILON
    )[0],
    "swiglu": torch.ops.npu.npu_swiglu,
    "rotary, three axes": mrope,
    "tower attention": tower("npu-fusion"),
    "tower attention, ATB": tower("npu-atb"),
    "write to the cache": write,
    "attention of a prompt": prefill,
    "attention of one token": decode,
}
