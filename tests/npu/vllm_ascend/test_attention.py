# SPDX-License-Identifier: Apache-2.0
"""Attention and the key-value cache as vllm-ascend computes them for our configuration, on strict stand-ins."""

from __future__ import annotations

import pytest

from tests.npu.mistakes import with_mistake
from tests.npu.vllm_ascend.conftest import stack_here
from tests.npu.vllm_ascend.steps_of_attention import SHAPES, serve

# Stack -> text in attention_v1, what it becomes.
MISTAKES = {
    "both": [
        ("scale=self.scale,", "scale=1.0,"),
        ("scale=self.scale,", "scale=self.scale * 1.1,"),
        ("sparse_mode=3,", "sparse_mode=0,"),
        ('input_layout="TND"', 'input_layout="BSH"'),
        ("block_size=block_size,", "block_size=64,"),
        ("num_key_value_heads=self.num_kv_heads,", "num_key_value_heads=self.num_heads,"),
        ("value = self.value_cache.view(", "value = self.key_cache.view("),
        ("key=key[", "key=value["),
        ("actual_seq_lengths=attn_metadata.actual_seq_lengths_q,", "actual_seq_lengths=attn_metadata.seq_lens_list,"),
        ("seq_lens_list=seq_lens.tolist()", "seq_lens_list=(seq_lens - 1).tolist()"),
        ("slot_mapping=slot_mapping,", "slot_mapping=slot_mapping.flip(0),"),
        ("slot_mapping=slot_mapping,", "slot_mapping=slot_mapping.long(),"),
        ("block_tables=block_table,", "block_tables=block_table.flip(1),"),
        ("block_tables=block_table,", "block_tables=block_table.T,"),
    ],
    "0.11.1": [
        ("mask=mask,", "mask=mask.T,"),
        ("mask=mask,", "mask=mask.float(),"),
        ("seq_len=attn_metadata.seq_lens,", "seq_len=attn_metadata.seq_lens.long(),"),
        ("seq_len=attn_metadata.seq_lens,", "seq_len=attn_metadata.seq_lens.cumsum(0).int(),"),
        ("context_lens=attn_metadata.seq_lens,", "context_lens=attn_metadata.seq_lens - 1,"),
        ("scale_value=self.scale,", "scale_value=1.0,"),
        ("query = query[:num_tokens]", "pass"),
    ],
    "0.23.0": [
        ("seq_lens_list = seq_lens.tolist()", "seq_lens_list = [1] * len(seq_lens)"),
        ("query = query[:num_tokens]", "pass"),
        # vLLM's filling is in no slot.
        ("key=key[: attn_metadata.num_actual_tokens] if not encoder_decoder else key,", "key=key,"),
        ("key = key[:num_tokens]", "pass"),
    ],
}


@pytest.mark.parametrize("family", SHAPES)
def test_every_step_attends_to_all_tokens_so_far(layers, runner, family: str):
    serve(layers("attention.attention_v1"), runner, family)


@pytest.mark.parametrize(("old", "new"), MISTAKES["both"] + MISTAKES[stack_here()], ids=lambda value: value[:50])
def test_a_mistake_is_found(layers, runner, old: str, new: str):
    with pytest.raises((AssertionError, ValueError, RuntimeError, TypeError, IndexError)):
        serve(with_mistake(layers("attention.attention_v1"), old, new), runner)
