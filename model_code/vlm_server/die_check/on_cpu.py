# SPDX-License-Identifier: Apache-2.0
"""The operators by PyTorch's names: those that every device has (`EVERYWHERE`), and for the others what a CPU calls."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from vlm_models.paddleocr_vl.attention import packed_attention

from . import reference, shapes


def patches(pixels: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """As the tower computes it: one product of matrices."""
    return F.linear(pixels.flatten(1), kernel.flatten(1), bias)


def norm(value: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(value, (shapes.HIDDEN,), weight, shapes.EPSILON)


def swiglu(value: Tensor) -> Tensor:
    first, second = value.chunk(2, -1)
    return F.silu(first) * second


def tower(qkv: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """By the backend that the tower chooses here; over few images, since a page takes a CPU seconds."""
    own = packed_attention(qkv.device, qkv.dtype, shapes.VISION_HEAD_DIM)
    return own.attend_rotated(qkv, cos, sin, own.plan(shapes.PASSES[shapes.FEW], qkv.device))


def paged(query: Tensor, keys: Tensor, values: Tensor, new: tuple[int, ...]) -> Tensor:
    found = []
    for part, blocks, context in zip(query.split(new), shapes.BLOCK_TABLE, shapes.CONTEXTS):
        key, value = (cache[list(blocks)].flatten(0, 1)[:context].transpose(0, 1) for cache in (keys, values))
        seen = torch.ones(len(part), context, dtype=torch.bool).tril(context - len(part))
        attended = F.scaled_dot_product_attention(part.transpose(0, 1), key, value, seen, enable_gqa=True)
        found.append(attended.transpose(0, 1))
    return torch.cat(found)


EVERYWHERE: dict[str, Callable[..., Tensor]] = {
    "allocate and copy": lambda value: value.clone(),
    "linear": F.linear,
    "patch embedding": patches,
    "layer norm": lambda value, weight, bias: F.layer_norm(value, (shapes.HIDDEN,), weight, bias, shapes.EPSILON),
    "gelu": lambda value: F.gelu(value, approximate="tanh"),
}
CALLS: dict[str, Callable[..., Tensor]] = {
    "rms norm": norm,
    "add and rms norm": lambda value, residual, weight: norm(value + residual, weight),
    "swiglu": swiglu,
    # PyTorch has no kernel of this name: the definition, computed in bfloat16.
    "rotary, three axes": reference.mrope,
    shapes.tower(shapes.FEW): tower,
    "write to the cache": reference.cache,
    "attention of a prompt": lambda query, keys, values: paged(query, keys, values, shapes.NEW),
    "attention of one token": lambda query, keys, values: paged(query, keys, values, shapes.ONE_EACH),
}
