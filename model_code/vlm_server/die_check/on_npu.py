# SPDX-License-Identifier: Apache-2.0
"""The operators as they are called on an A3 or A2; `on_310p` has those of the inference cards.

The tower's come from our own attention backends. The language model's are called with the arguments that the stacks
of vllm-ascend use for it (attention_v1, layernorm, activation, rotary_embedding of 6664a4e and v0.23.0). Over the cache
both stacks attend to parts of prompts by fused attention. To whole prompts and to single tokens 0.11.1 attends by ATB,
0.23.0 by fused attention too: its paged attention is for shapes that `pa_shape_list` names, and none is named here.
"""

from __future__ import annotations

import importlib
import platform
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import stacks
from vlm_models.paddleocr_vl.attention import BACKENDS

from . import shapes

# ACL's layouts: plain, and FRACTAL_NZ: tiles of 16 x 16, in which vllm-ascend can keep the weights of linear layers.
PLAIN, TILES = 2, 29
SCALE = shapes.HEAD_DIM**-0.5
HEAD_ARGUMENTS = {"num_heads": shapes.HEADS, "num_kv_heads": shapes.KEY_HEADS, "scale_value": SCALE}


def in_tiles(value: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(value, torch.ops.npu.npu_format_cast(weight, TILES), bias)


def mrope(query: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    key = query[:, : shapes.KEY_HEADS * shapes.HEAD_DIM].contiguous()
    sections = list(shapes.SECTIONS)
    return torch.ops.npu.npu_mrope(
        positions, query, key, table, shapes.HEAD_DIM, mrope_section=sections, rotary_mode="half"
    )[0]


def tower(backend: str, images: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def attend(qkv: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        own, sizes = BACKENDS[backend](shapes.VISION_HEAD_DIM), shapes.PASSES[images]
        attended = own.attend_rotated(qkv, cos, sin, own.plan(sizes, qkv.device))
        return attended.cpu()[shapes.compared(sizes)]

    return attend


def compiled(value: Tensor, residual: Tensor, weight: Tensor) -> Tensor:
    """The extension that was compiled with vllm-ascend, and of it what a stack calls in each step: v0.23.0's norm of a
    sum, whose kernel is compiled too, and before it what each capture of a graph calls. Where the extension does not
    load, vllm-ascend writes a warning, and fails at the capture or computes the norm by other means."""
    # Says where the compiled kernels lie, which v0.23.0's extension reads once, while it is loaded.
    importlib.import_module("vllm_ascend.utils").enable_custom_op()
    importlib.import_module("vllm_ascend.vllm_ascend_C")  # raises where that wrote a warning
    own = torch.ops._C_ascend
    if hasattr(own, "npu_add_rms_norm_bias"):
        return own.npu_add_rms_norm_bias(value, residual, weight, None, shapes.EPSILON)[0]
    found = torch.ops.npu.npu_add_rms_norm(value, residual, weight, shapes.EPSILON)[0]
    return own.weak_ref_tensor(found).clone()


def in_a_graph(value: Tensor, norm: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Two operators, captured over zeros and replayed over `value` in the same place, as a step of the model is."""
    npu: Any = torch.npu  # type: ignore[attr-defined]  # torch_npu adds it
    given = torch.zeros_like(value)

    def piece() -> Tensor:
        return F.linear(torch.ops.npu.npu_rms_norm(given, norm, shapes.EPSILON)[0], weight, bias)

    piece()  # what an operator does at its first call must not be captured
    graph = npu.NPUGraph()
    with npu.graph(graph):
        result = piece()
    given.copy_(value)
    graph.replay()
    return result


def block_table(device: torch.device) -> Tensor:
    return torch.tensor(shapes.BLOCK_TABLE, dtype=torch.int32, device=device)


def fused(
    query: Tensor, key: Tensor, value: Tensor, ends: list[int], lengths: list[int], table: Tensor | None
) -> Tensor:
    """Requests of queries up to `ends`. With a block table: blocks of caches, and as many tokens of each request as
    `lengths` says. Without: the keys and values of the queries' own tokens."""
    return torch.ops.npu.npu_fused_infer_attention_score(
        query,
        key,
        value,
        # The mask that sparse_mode 3 wants, whatever the lengths are: ones over the diagonal.
        atten_mask=torch.ones(2048, 2048).triu(1).to(torch.int8).to(query.device),
        block_table=table,
        input_layout="TND",
        block_size=shapes.BLOCK,
        actual_seq_lengths=ends,
        actual_seq_lengths_kv=lengths,
        num_key_value_heads=shapes.KEY_HEADS,
        num_heads=shapes.HEADS,
        scale=SCALE,
        sparse_mode=3,
    )[0]


def fused_whole_prompts(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    ends = shapes.ends(shapes.PROMPTS)
    return fused(query, key, value, ends, ends, None)


def fused_over_the_cache(new: tuple[int, ...]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Attention of so many new tokens of each sequence over its blocks."""

    def attend(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        caches = keys.flatten(2), values.flatten(2)
        return fused(query, *caches, shapes.ends(new), list(shapes.CONTEXTS), block_table(query.device))

    return attend


def whole_prompts(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    out, longest = torch.empty_like(query), max(shapes.PROMPTS)
    torch.ops.atb._npu_flash_attention(
        query=query,
        key=key,
        value=value,
        # Not the mask of fused attention: as large as the longest prompt, and of the query's type.
        mask=torch.ones(longest, longest).triu(1).to(query.device, query.dtype),
        seq_len=torch.tensor(shapes.PROMPTS, dtype=torch.int32, device="cpu"),
        out=out,
        **HEAD_ARGUMENTS,
    )
    return out


def decode(query: Tensor, keys: Tensor, values: Tensor, lengths_on: torch.device | str = "cpu") -> Tensor:
    """``lengths_on``: 0.11.1's runner has the contexts on the host."""
    out = torch.empty_like(query)
    torch.ops.atb._npu_paged_attention(
        query=query,
        key_cache=keys,
        value_cache=values,
        block_table=block_table(query.device),
        context_lens=torch.tensor(shapes.CONTEXTS, dtype=torch.int32, device=lengths_on),
        out=out,
        **HEAD_ARGUMENTS,
    )
    return out


def write(key: Tensor, value: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    slots = torch.tensor(shapes.SLOTS, dtype=torch.int32, device=key.device)
    torch.ops.atb._npu_reshape_and_cache(key, value, keys, values, slots)
    return torch.stack((keys, values))


def slots(lengths: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    """As our patch of v0.23.0 has it where no triton is installed (slots_without_triton.patch), in each step."""
    requests = torch.arange(len(lengths), device=lengths.device)
    rows = requests.repeat_interleave(lengths, output_size=len(positions))
    return table[rows, positions // shapes.BLOCK] * shapes.BLOCK + positions % shapes.BLOCK


CALLS: dict[str, Callable[..., Tensor]] = {
    "linear, weight in tiles": in_tiles,
    "rms norm": lambda value, weight: torch.ops.npu.npu_rms_norm(value, weight, shapes.EPSILON)[0],
    "add and rms norm": lambda value, other, weight: torch.ops.npu.npu_add_rms_norm(
        value, other, weight, shapes.EPSILON
    )[0],
    "swiglu": torch.ops.npu.npu_swiglu,
    "rotary, three axes": mrope,
    **{shapes.tower(images, own): tower(own, images) for images in shapes.PASSES for own in ("npu-fusion", "npu-atb")},
    "compiled extension": compiled,
    "captured graph": in_a_graph,
    "write to the cache": write,
    "attention of a prompt": fused_over_the_cache(shapes.NEW),
}
CALLS_OF_DEFAULT: dict[str, Callable[..., Tensor]] = {
    "attention of whole prompts, ATB": whole_prompts,
    "attention of one token, ATB": decode,
}
CALLS_OF_NEWER: dict[str, Callable[..., Tensor]] = {
    "attention of whole prompts": fused_whole_prompts,
    "attention of one token": fused_over_the_cache(shapes.ONE_EACH),
    "slots of a step": slots,
}


def calls(stack: str | None) -> dict[str, Callable[..., Tensor]]:
    """What this stack calls."""
    if stacks.of(stack) is not stacks.DEFAULT:
        return {**CALLS, **CALLS_OF_NEWER}
    own = {**CALLS, **CALLS_OF_DEFAULT}
    if platform.machine() == "x86_64":
        del own["rotary, three axes"]  # AscendMRotaryEmbedding of 6664a4e leaves it to vLLM's own there
    return own
