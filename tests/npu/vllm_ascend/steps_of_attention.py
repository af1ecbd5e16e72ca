# SPDX-License-Identifier: Apache-2.0
"""Attention and the key-value cache through the steps that vllm-ascend's runner makes of requests: whole prompts, one
token of each, prompts in chunks beside others' tokens.

The runner's own functions choose the state and the mask, its builder makes the metadata.
"""

from __future__ import annotations

import importlib
import types
from typing import Any

import numpy as np
import torch

from tests.npu.vllm_ascend.conftest import NEW
from tests.support.simulated_npu_kernels import attend

HEAD_DIM, BLOCK = 128, 128
# Heads and key heads of PaddleOCR-VL, and of the families that 0.23.0 serves besides.
SHAPES = {"paddleocr_vl": (16, 2)}
if NEW:
    SHAPES |= {"qwen2_vl": (12, 2), "hunyuan_vl": (16, 8)}
# Blocks of each request, in no order.
BLOCKS = {"short": [3, 7], "long": [6, 1], "late": [2, 5]}
# State, what each request adds, and the rows of a captured graph. The runner puts single tokens first.
STEPS = [
    ("PrefillNoCache", {"short": 5, "long": 130}, 136),
    ("DecodeOnly", {"short": 1, "long": 1}, 4),
    ("ChunkedPrefill", {"short": 1, "long": 1, "late": 100}, 102),
    ("ChunkedPrefill", {"long": 1, "late": 40}, 48),
    ("DecodeOnly", {"short": 1, "long": 1, "late": 1}, 3),
]


def metadata(backend: types.ModuleType, runner: Any, tokens: dict[str, int], done: dict[str, int], filled: int) -> Any:
    """What the runner hands to each layer for a step; `done` counts the tokens of each request before it."""
    names = list(tokens)
    counts = np.array([tokens[name] for name in names], dtype=np.int32)
    lengths = torch.tensor([done[name] + tokens[name] for name in names], dtype=torch.int32)
    runner.seq_lens_np = lengths.numpy()
    runner.seq_lens = types.SimpleNamespace(np=lengths.numpy())
    runner.input_batch = types.SimpleNamespace(num_computed_tokens_cpu=lengths.numpy() - counts)
    kind = runner.module.NPUModelRunner
    state = kind._build_attn_state(runner, len(names), counts, counts)
    starts = torch.tensor([0, *np.cumsum(counts)], dtype=torch.int32)
    positions = [done[name] + index for name in names for index in range(tokens[name])]
    owners = [name for name in names for _ in range(tokens[name])]
    slots = [BLOCKS[name][at // BLOCK] * BLOCK + at % BLOCK for name, at in zip(owners, positions, strict=True)]
    values = {
        "query_start_loc": starts,
        "query_start_loc_cpu": starts,
        "seq_lens": lengths,
        "seq_lens_cpu": lengths,
        "num_computed_tokens_cpu": lengths - torch.from_numpy(counts),
        "num_reqs": len(names),
        "num_actual_tokens": len(slots),
        "num_input_tokens": filled,
        "max_query_len": int(counts.max()),
        "decode_token_per_req": 1,
        "block_table_tensor": torch.tensor([BLOCKS[name] for name in names], dtype=torch.int32),
        # Slots of the filling are -1, and no operator may see them.
        "slot_mapping": torch.tensor([*slots, *[-1] * (filled - len(slots))], dtype=torch.int32),
        "actual_seq_lengths_q": [],
        "attn_state": backend.AscendAttentionState[state.name],
    }
    utils = importlib.import_module("vllm_ascend.attention.utils")
    if not NEW:
        values["attn_mask"] = kind._make_attention_mask(runner, lengths, None, state)
    else:
        values["max_seq_len"] = 0
    builder = backend.AscendAttentionMetadataBuilder(None, [], runner.vllm_config, runner.device)
    return builder.build(0, utils.AscendCommonAttentionMetadata(**values))


def serve(backend: types.ModuleType, runner: Any, family: str = "paddleocr_vl") -> None:
    """Raise unless every step gives what attention over all tokens so far gives."""
    from vllm.config import set_current_vllm_config
    from vllm.forward_context import get_forward_context, set_forward_context

    torch.manual_seed(0)
    heads, key_heads = SHAPES[family]
    widths = [heads * HEAD_DIM, key_heads * HEAD_DIM, key_heads * HEAD_DIM]
    layer = types.SimpleNamespace(_k_scale_float=1.0, _v_scale_float=1.0)
    cache = torch.full((2, 8, BLOCK, key_heads, HEAD_DIM), torch.nan, dtype=torch.bfloat16)
    seen = {name: torch.empty(0, sum(widths), dtype=torch.bfloat16) for name in BLOCKS}
    with set_current_vllm_config(runner.vllm_config):
        impl = backend.AscendAttentionBackendImpl(
            heads, HEAD_DIM, HEAD_DIM**-0.5, key_heads, None, None, "auto", None, "decoder", None
        )
        for state, tokens, filled in STEPS:
            meta = metadata(backend, runner, tokens, {name: len(seen[name]) for name in seen}, filled)
            assert meta.attn_state.name == state
            qkv = torch.randn(filled, sum(widths)).to(torch.bfloat16)
            query, key, value = (part.unflatten(-1, (-1, HEAD_DIM)) for part in qkv.split(widths, dim=-1))
            output = torch.zeros(filled, heads, HEAD_DIM, dtype=torch.bfloat16)
            if hasattr(meta, "query_start_loc"):
                # Nothing is read back: a layer that took a length from the device would raise here.
                meta.query_start_loc = meta.query_start_loc.to("meta")
            with set_forward_context(meta, runner.vllm_config):
                # vllm-ascend's own field.
                context: Any = get_forward_context()
                context.capturing = False
                # The rotation leaves new queries and keys; values stay a part of QKV.
                impl.forward(layer, query.contiguous(), key.contiguous(), value, tuple(cache), meta, output)
            start = 0
            for name, count in tokens.items():
                seen[name] = torch.cat((seen[name], qkv[start : start + count]))
                q, k, v = (part.unflatten(-1, (-1, HEAD_DIM)) for part in seen[name].split(widths, dim=-1))
                expected = attend(q[-count:], k, v, HEAD_DIM**-0.5, causal=True)
                torch.testing.assert_close(output[start : start + count], expected, rtol=1e-2, atol=1e-3)
                start += count
