# SPDX-License-Identifier: Apache-2.0
"""Graphs of whole steps: vllm-ascend's own capture, attention and update of its arguments, on simulated graphs.

Steps of one token of each request are replayed in the graph of four, also with fewer requests. What a stack fills up
wrongly is what the launcher refuses there (`check_graphs`).
"""

from __future__ import annotations

import importlib
import types
from typing import Any

import pytest
import torch

from tests.npu.mistakes import with_mistake
from tests.npu.vllm_ascend.conftest import NEW
from tests.npu.vllm_ascend.steps_of_attention import BLOCK, HEAD_DIM
from tests.support import simulated_graphs
from tests.support.simulated_npu_kernels import attend

HEADS, KEY_HEADS, SIZE = 16, 2, 4
# Blocks of each request, in no order; block 0 is nobody's.
BLOCKS = [[3, 7], [6, 1], [2, 5], [4, 8]]
# Tokens that each request has, the new one counted.
STEPS = {"as many as the graph has": [5, 130, 17, 128], "fewer": [6, 131, 129], "one": [7]}


class Model:
    """Two layers of attention on memory that stays in its place, as the runner's buffers do, and their graph."""

    def __init__(self, backend: types.ModuleType, graphs: types.ModuleType, runner: Any) -> None:
        from vllm.config import CUDAGraphMode, set_current_vllm_config

        self.backend, self.graphs, self.config = backend, graphs, runner.vllm_config
        self.config.compilation_config.cudagraph_mode = CUDAGraphMode.FULL_DECODE_ONLY
        self.mask = runner.attn_mask_builder.get_splitfuse_attn_mask()
        self.device = runner.device
        self.table = torch.zeros(SIZE, 2, dtype=torch.int32)
        self.slots = torch.zeros(SIZE, dtype=torch.int32)
        self.lengths = torch.zeros(SIZE, dtype=torch.int32)
        self.query = torch.zeros(SIZE, HEADS, HEAD_DIM, dtype=torch.bfloat16)
        self.new = torch.zeros(2, SIZE, KEY_HEADS, HEAD_DIM, dtype=torch.bfloat16)
        self.output = torch.zeros(2, SIZE, HEADS, HEAD_DIM, dtype=torch.bfloat16)
        self.caches = torch.randn(2, 2, 9, BLOCK, KEY_HEADS, HEAD_DIM).to(torch.bfloat16)
        self.layer = types.SimpleNamespace(_k_scale_float=1.0, _v_scale_float=1.0)
        with set_current_vllm_config(self.config):
            self.layers = [
                backend.AscendAttentionBackendImpl(
                    HEADS, HEAD_DIM, HEAD_DIM**-0.5, KEY_HEADS, None, None, "auto", None, "decoder", None
                )
                for _ in range(2)
            ]
            self.graph = graphs.ACLGraphWrapper(self.forward, self.config, CUDAGraphMode.FULL)

    def forward(self, query: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        from vllm.forward_context import get_forward_context

        metadata = get_forward_context().attn_metadata
        assert isinstance(metadata, dict)
        for index, layer in enumerate(self.layers):
            cache = (self.caches[index, 0], self.caches[index, 1])
            layer.forward(self.layer, query, new[0], new[1], cache, metadata[str(index)], self.output[index])
        return self.output

    def metadata(self, requests: int, capture: bool, tokens: int) -> dict[str, Any]:
        """As the runner of this stack makes it. The builder of 0.11.1 fills a step of single tokens up to the
        graph's size itself. The runner of 0.23.0 fills with lengths of 0, and a step with prompts by one request that
        has the rest of the tokens."""
        utils = importlib.import_module("vllm_ascend.attention.utils")
        rows = SIZE if tokens == 1 and NEW else requests
        starts = torch.arange(rows + 1, dtype=torch.int32) * tokens
        if NEW:
            self.lengths[requests:] = 0
            if int(starts[-1]) < SIZE:
                starts, rows = torch.cat((starts, torch.tensor([SIZE], dtype=torch.int32))), rows + 1
        states = self.backend.AscendAttentionState
        values: dict[str, Any] = {
            "query_start_loc": starts,
            "query_start_loc_cpu": starts,
            "seq_lens": self.lengths[:rows],
            "seq_lens_cpu": self.lengths[:rows],
            "num_computed_tokens_cpu": self.lengths[:rows] - tokens,
            "num_reqs": rows,
            "num_actual_tokens": requests * tokens,
            "num_input_tokens": SIZE,
            "max_query_len": tokens,
            "decode_token_per_req": 1,
            "block_table_tensor": self.table[:rows],
            "slot_mapping": self.slots,
            "actual_seq_lengths_q": [],
            "attn_state": states.DecodeOnly if tokens == 1 else states.ChunkedPrefill,
        }
        values |= {} if NEW else {"attn_mask": self.mask}
        values |= {"fia_attn_mask": self.mask} if not NEW else {"max_seq_len": 0}
        builder = self.backend.AscendAttentionMetadataBuilder(None, [], self.config, self.device)
        common = utils.AscendCommonAttentionMetadata(**values)
        found = builder.build_for_graph_capture(common) if capture else builder.build(0, common)
        return {"0": found, "1": found}

    def run(self, requests: int, capture: bool = False, tokens: int = 1) -> torch.Tensor:
        """A step in the graph, captured at its first; then the arguments of its attention, as the runner sets them."""
        from vllm.config import CUDAGraphMode
        from vllm.forward_context import BatchDescriptor, get_forward_context, set_forward_context

        metadata = self.metadata(requests, capture, tokens)
        size = BatchDescriptor(num_tokens=SIZE)
        how: dict[str, Any] = {"cudagraph_runtime_mode": CUDAGraphMode.FULL, "batch_descriptor": size}
        with set_forward_context(metadata, self.config, **how):
            context: Any = get_forward_context()
            context.capturing = False
            output = self.graph(self.query, self.new)
            if not capture:
                kind: Any = self.backend.AscendAttentionBackendImpl
                update = kind.update_graph_params if NEW else self.graphs.update_attn_params
                update(None, context, SIZE, *(() if not NEW else (self.config,)))
        return output

    def step(self, lengths: list[int]) -> None:
        """Raise unless each request's new token gets the attention over all of its tokens, in both layers."""
        self.query.copy_(torch.randn(self.query.shape))
        self.new.copy_(torch.randn(self.new.shape))
        self.slots.zero_()
        for row, length in enumerate(lengths):
            blocks = BLOCKS[row]
            self.table[row] = torch.tensor(blocks, dtype=torch.int32)
            self.lengths[row] = length
            self.slots[row] = blocks[(length - 1) // BLOCK] * BLOCK + (length - 1) % BLOCK
        output = self.run(len(lengths))
        for index, (keys, values) in enumerate(self.caches):
            for row, length in enumerate(lengths):
                key, value = (cache[BLOCKS[row]].flatten(0, 1)[:length].clone() for cache in (keys, values))
                key[-1], value[-1] = self.new[:, row]
                expected = attend(self.query[row : row + 1], key, value, HEAD_DIM**-0.5, causal=True)
                torch.testing.assert_close(output[index, row : row + 1], expected, rtol=1e-2, atol=1e-3)


@pytest.fixture
def captured(layers, runner, monkeypatch: pytest.MonkeyPatch):
    """A function module -> Model, whose graph of SIZE is captured."""
    from vllm.compilation import monitor

    npu: Any = torch.npu  # type: ignore[attr-defined]  # torch_npu adds it
    backend, graphs = layers("attention.attention_v1"), layers("compilation.acl_graph")
    simulated_graphs.install(npu, monkeypatch)
    monkeypatch.setattr(graphs, "_graph_params", None)
    monkeypatch.setattr(monitor, "cudagraph_capturing_enabled", True)
    graphs.set_graph_params({SIZE})

    def make(name: str = "", module: Any = None) -> Model:
        """`module` stands in the place of vllm-ascend's of this name."""
        used = {"attention.attention_v1": backend, "compilation.acl_graph": graphs} | ({name: module} if name else {})
        own_backend, own_graphs = used.values()
        own_graphs.get_graph_params = graphs.get_graph_params
        torch.manual_seed(0)
        model = Model(own_backend, own_graphs, runner)
        model.lengths.fill_(1)
        model.run(SIZE, capture=True)
        return model

    yield make
    simulated_graphs.leave()


def test_a_full_graph_gives_what_attention_gives(captured):
    model = captured()
    for _ in range(2):
        model.step(STEPS["as many as the graph has"])


@pytest.mark.parametrize("requests", STEPS)
def test_graphs_that_are_filled_up(captured, requests: str):
    model = captured()
    model.step(STEPS["as many as the graph has"])
    if NEW or len(STEPS[requests]) == SIZE:
        model.step(STEPS[requests])
    else:
        with pytest.raises(ValueError, match="is no list of cumulative lengths of 4 tokens|for [13] requests"):
            model.step(STEPS[requests])


def test_a_prompt_in_a_full_graph(captured):
    """Why stack 0.11.1 refuses VLM_GRAPH_MODE=full, which replays steps with prompts too."""
    model = captured()
    model.lengths[0] = 3
    if NEW:
        model.table[0] = torch.tensor(BLOCKS[0], dtype=torch.int32)
        model.query.copy_(torch.randn(model.query.shape))
        model.new.copy_(torch.randn(model.new.shape))
        model.slots[:3] = BLOCKS[0][0] * BLOCK + torch.arange(3)
        output = model.run(1, tokens=3)
        key, value = model.new[:, :3].unbind()
        expected = attend(model.query[:3], key, value, HEAD_DIM**-0.5, causal=True)
        for layer in output:
            torch.testing.assert_close(layer[:3], expected, rtol=1e-2, atol=1e-3)
        return
    with pytest.raises(ValueError, match="is no list of cumulative lengths of 4 tokens"):
        model.run(1, tokens=3)


PLACES = ("attention.attention_v1", "compilation.acl_graph")
# Module of vllm-ascend (0.23.0 updates the arguments beside the attention), text in it, what it becomes.
MISTAKES = [
    (PLACES[1], "entry.aclgraph.replay()", "pass"),
    *(
        [
            (PLACES[0], "attn_metadata[metadata_key].seq_lens_list", "seq_lens"),
            (PLACES[0], "attn_metadata[metadata_key].actual_seq_lengths_q", "query_start_loc[::-1]"),
            (PLACES[0], "actual_seq_lengths_kv=seq_lens,", "actual_seq_lengths_kv=[1] * num_tokens,"),
            (PLACES[0], "scale=scale,", "scale=1.0,"),
            (PLACES[0], "event.record(update_stream)", "pass"),
        ]
        if NEW
        else [
            (PLACES[1], "seq_lens = forward_context.attn_metadata[key].seq_lens_list", "pass"),
            (PLACES[1], "actual_seq_lengths_kv=seq_lens,", "actual_seq_lengths_kv=[1] * runtime_shape,"),
            (PLACES[1], "scale=scale,", "scale=1.0,"),
            (PLACES[1], "event.record(update_stream)", "pass"),
        ]
    ),
]


@pytest.mark.parametrize(("name", "old", "new"), MISTAKES)
def test_a_mistake_is_found(captured, layers, name: str, old: str, new: str):
    model = captured(name, with_mistake(layers(name), old, new))
    with pytest.raises((AssertionError, ValueError)):
        model.step(STEPS["as many as the graph has"])
