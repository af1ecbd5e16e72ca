# SPDX-License-Identifier: Apache-2.0
"""One operator of each kind that serving calls: inputs, what they should give, and how far a device may be off.

Tolerance: a result in bfloat16 has 8 significant bits, so each rounding on an operator's way errs by at most 2^-8 of
the value. `roundings` counts them, products accumulated in float32 (2^-24) left out. What is compared is the largest
difference over the largest expected value. float16 is given the same bounds: a 310P may keep exponents and sums of
attention in it, which bfloat16's chips do in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from . import reference, shapes

ROUNDING = torch.finfo(torch.bfloat16).eps / 2


@dataclass(frozen=True)
class Operator:
    """`library` is what holds the device's kernel: `torch` (CANN's own operators through PyTorch's names), `npu`
    (torch_npu), `atb` or `vllm_ascend`. On a CPU all are PyTorch's."""

    name: str
    library: str
    roundings: int
    inputs: Callable[[], tuple[Tensor, ...]]
    expected: Callable[..., Tensor]

    @property
    def tolerance(self) -> float:
        return self.roundings * ROUNDING

    def error(self, found: Tensor) -> float:
        """The largest difference from the expected values over the largest of these; infinite where shapes differ."""
        given = (value.double() if value.is_floating_point() else value for value in self.inputs())
        expected = self.expected(*given)
        found = found.detach().cpu().double()
        if found.shape != expected.shape or not bool(found.isfinite().all()):
            return float("inf")
        return float((found - expected).abs().max() / expected.abs().max())


def linear() -> tuple[Tensor, ...]:
    return (
        shapes.drawn(shapes.TOKENS, shapes.HIDDEN),
        shapes.drawn(shapes.INTERMEDIATE, shapes.HIDDEN, seed=1, scale=shapes.HIDDEN**-0.5),
        shapes.drawn(shapes.INTERMEDIATE, seed=2),
    )


def pixels() -> tuple[Tensor, ...]:
    size = (3, shapes.PATCH, shapes.PATCH)
    return (
        shapes.drawn(sum(shapes.PASSES[shapes.FEW]), *size),
        shapes.drawn(shapes.VISION_HIDDEN, *size, seed=1, scale=0.05),
        shapes.drawn(shapes.VISION_HIDDEN, seed=2),
    )


def hidden(vectors: int, matrices: int = 1) -> tuple[Tensor, ...]:
    """`matrices` of [T, hidden], then `vectors` of [hidden]."""
    wide = [shapes.drawn(shapes.TOKENS, shapes.HIDDEN, seed=seed) for seed in range(matrices)]
    return (*wide, *(shapes.drawn(shapes.HIDDEN, seed=10 + seed) for seed in range(vectors)))


def rotated() -> tuple[Tensor, ...]:
    rows = torch.randint(0, 64, (3, shapes.TOKENS), generator=torch.Generator().manual_seed(0))
    table = torch.cat(shapes.angles(64, shapes.HEAD_DIM // 2), -1).to(shapes.DTYPE)
    return shapes.drawn(shapes.TOKENS, shapes.HEADS * shapes.HEAD_DIM), rows, table


def images(name: str) -> tuple[Tensor, ...]:
    patches = sum(shapes.PASSES[name])
    cos, sin = (torch.cat((x, x), -1)[:, None] for x in shapes.angles(patches, shapes.VISION_HEAD_DIM // 2))
    return shapes.drawn(patches, 3 * shapes.VISION_HEADS, shapes.VISION_HEAD_DIM), cos, sin


def queries(tokens: int) -> tuple[Tensor, ...]:
    return shapes.drawn(tokens, shapes.HEADS, shapes.HEAD_DIM), *shapes.caches()


def first_prompts() -> tuple[Tensor, ...]:
    """Queries, keys and values of shapes.PROMPTS one after another."""
    tokens = sum(shapes.PROMPTS)
    sizes = (shapes.HEADS, shapes.KEY_HEADS, shapes.KEY_HEADS)
    return tuple(shapes.drawn(tokens, heads, shapes.HEAD_DIM, seed=seed) for seed, heads in enumerate(sizes))


def new_tokens() -> tuple[Tensor, ...]:
    return queries(sum(shapes.NEW))


def one_token_each() -> tuple[Tensor, ...]:
    return queries(sum(shapes.ONE_EACH))


def tokens_to_keep() -> tuple[Tensor, ...]:
    size = (len(shapes.SLOTS), shapes.KEY_HEADS, shapes.HEAD_DIM)
    return shapes.drawn(*size, seed=3), shapes.drawn(*size, seed=4), *shapes.caches()


def step() -> tuple[Tensor, ...]:
    """Tokens of each request, one of which has none; places of the tokens in their requests; blocks of the requests."""
    lengths, table = (torch.tensor(numbers, dtype=torch.int32) for numbers in ([3, 0, 2], [[0, 1], [1, 0], [1, 0]]))
    return lengths, torch.tensor([0, shapes.BLOCK + 2, shapes.BLOCK + 3, 5, shapes.BLOCK - 1]), table


def captured() -> tuple[Tensor, ...]:
    value, weight, bias = linear()
    return value, shapes.drawn(shapes.HIDDEN, seed=3), weight, bias


def tower(name: str, backend: str, library: str) -> Operator:
    """The attention of the tower over one of shapes.PASSES; the sizes are looked up when it runs."""
    return Operator(
        shapes.tower(name, backend),
        library,
        6,
        lambda: images(name),
        lambda qkv, cos, sin: reference.tower(qkv, cos, sin, shapes.PASSES[name]),
    )


OPERATORS = (
    # 4 MiB there and back: the die has memory and gives back what it got.
    Operator("allocate and copy", "torch", 0, lambda: (shapes.drawn(2 << 20),), reference.copy),
    Operator("linear", "torch", 2, linear, reference.linear),
    Operator("linear, weight in tiles", "npu", 2, linear, reference.linear),
    Operator("patch embedding", "torch", 2, pixels, reference.patches),
    Operator("layer norm", "torch", 3, lambda: hidden(2), reference.layer_norm),
    Operator("gelu", "torch", 2, lambda: hidden(0), reference.gelu),
    Operator("rms norm", "npu", 2, lambda: hidden(1), reference.rms_norm),
    Operator("add and rms norm", "npu", 3, lambda: hidden(1, 2), reference.add_rms_norm),
    Operator("swiglu", "npu", 3, lambda: hidden(0), reference.swiglu),
    Operator("rotary, three axes", "npu", 3, rotated, reference.mrope),
    *(tower(name, "npu-fusion", "npu") for name in shapes.PASSES),
    *(tower(name, "npu-atb", "atb") for name in shapes.PASSES),
    Operator("write to the cache", "atb", 0, tokens_to_keep, reference.cache),
    # The language model's, by the library that product and stack call for it.
    Operator("attention of whole prompts", "npu", 4, first_prompts, reference.whole_prompts),
    Operator("attention of whole prompts, ATB", "atb", 4, first_prompts, reference.whole_prompts),
    Operator("attention of a prompt", "npu", 4, new_tokens, reference.prefill),
    Operator("attention of a prompt, ATB", "atb", 4, new_tokens, reference.prefill),
    Operator("attention of one token", "npu", 4, one_token_each, reference.decode),
    Operator("attention of one token, ATB", "atb", 4, one_token_each, reference.decode),
    Operator("slots of a step", "torch", 0, step, reference.slots),
    Operator("compiled extension", "vllm_ascend", 3, lambda: hidden(1, 2), reference.add_rms_norm),
    Operator("captured graph", "npu", 4, captured, reference.norm_and_linear),
)
