# SPDX-License-Identifier: Apache-2.0
"""What the operators should give: their definitions in double precision on the host."""

from __future__ import annotations

import torch
from torch import Tensor

from . import shapes


def linear(value: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """[T, in] -> [T, out]."""
    return value @ weight.T + bias


def patches(pixels: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """The convolution whose kernel is its stride, as the checkpoint has it: [T, 3, P, P] -> [T, hidden]."""
    return torch.nn.functional.conv2d(pixels, kernel, bias, stride=shapes.PATCH).flatten(1)


def layer_norm(value: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centred = value - value.mean(-1, keepdim=True)
    return centred * (centred.square().mean(-1, keepdim=True) + shapes.EPSILON).rsqrt() * weight + bias


def gelu(value: Tensor) -> Tensor:
    """The approximation by tanh that the tower was trained with."""
    return value / 2 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (value + 0.044715 * value**3)))


def rms_norm(value: Tensor, weight: Tensor) -> Tensor:
    return value * (value.square().mean(-1, keepdim=True) + shapes.EPSILON).rsqrt() * weight


def add_rms_norm(value: Tensor, residual: Tensor, weight: Tensor) -> Tensor:
    return rms_norm(value + residual, weight)


def swiglu(value: Tensor) -> Tensor:
    """SiLU of the first half times the second half."""
    first, second = value.chunk(2, -1)
    return first / (1 + torch.exp(-first)) * second


def turn(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Feature i is turned with feature i + D/2: heads [T, n, D], cos and sin [T, 1, D/2]."""
    first, second = heads.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def mrope(query: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    """Section i of the angles is that of row i of `positions` [3, T]; `table` [rows, D] holds cosines, then sines."""
    parts = []
    for half in table.chunk(2, -1):
        rows = half[positions.long()].split(shapes.SECTIONS, -1)
        parts.append(torch.cat([part[index] for index, part in enumerate(rows)], -1)[:, None])
    return turn(query.view(len(query), -1, shapes.HEAD_DIM), *parts).flatten(1)


def attend(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None = None) -> Tensor:
    """softmax(q k^T / sqrt(D)) v; query [T, H, D], key and value [S, h, D], each key head for H / h query heads; `seen`
    [T, S] says which keys a query sees."""
    key, value = (part.repeat_interleave(query.shape[1] // part.shape[1], 1) for part in (key, value))
    scores = torch.einsum("thd,shd->hts", query, key) * query.shape[-1] ** -0.5
    if seen is not None:
        scores = scores.masked_fill(~seen, -torch.inf)
    return torch.einsum("hts,shd->thd", scores.softmax(-1), value)


def tower(qkv: Tensor, cos: Tensor, sin: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """The tower's attention over images of these sizes: rotation, then full attention inside each image; [T, 3H, D] ->
    [R, H, D], the rows of shapes.compared."""
    heads, half = qkv.shape[1] // 3, qkv.shape[-1] // 2
    query, key = turn(qkv[:, : 2 * heads], cos[..., :half], sin[..., :half]).split(heads, 1)
    rows, found, end = shapes.compared(sizes), [], 0
    for size in sizes:
        start, end = end, end + size
        mine = rows[(rows >= start) & (rows < end)]
        if len(mine):
            found.append(attend(query[mine], key[start:end], qkv[start:end, 2 * heads :]))
    return torch.cat(found)


def over_the_cache(query: Tensor, keys: Tensor, values: Tensor, new: tuple[int, ...]) -> Tensor:
    """Causal attention of each sequence's new tokens over all of its tokens in the blocks of the cache."""
    found = []
    for part, blocks, context in zip(query.split(new), shapes.BLOCK_TABLE, shapes.CONTEXTS):
        key, value = (cache[list(blocks)].flatten(0, 1)[:context] for cache in (keys, values))
        seen = torch.ones(len(part), context, dtype=torch.bool).tril(context - len(part))
        found.append(attend(part, key, value, seen))
    return torch.cat(found)


def whole_prompts(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention inside each of shapes.PROMPTS."""
    queries, keys, values = (part.split(shapes.PROMPTS) for part in (query, key, value))
    seen = [torch.ones(length, length, dtype=torch.bool).tril() for length in shapes.PROMPTS]
    return torch.cat([attend(*part) for part in zip(queries, keys, values, seen, strict=True)])


def prefill(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return over_the_cache(query, keys, values, shapes.NEW)


def decode(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return over_the_cache(query, keys, values, shapes.ONE_EACH)


def cache(key: Tensor, value: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Both caches after the tokens were written to their slots."""
    written = torch.stack((keys, values)).flatten(1, 2)
    written[:, list(shapes.SLOTS)] = torch.stack((key, value))
    return written.view(2, *keys.shape)


def norm_and_linear(value: Tensor, norm: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return linear(rms_norm(value, norm), weight, bias)


def copy(value: Tensor) -> Tensor:
    return value


def slots(lengths: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    """Where in the cache each token lies: a block of its request's, and the place in it."""
    requests = [request for request, length in enumerate(lengths.tolist()) for _ in range(length)]
    found = [
        table[request, at // shapes.BLOCK] * shapes.BLOCK + at % shapes.BLOCK
        for request, at in zip(requests, positions.tolist())
    ]
    return torch.stack(found)
