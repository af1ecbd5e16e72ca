# SPDX-License-Identifier: Apache-2.0
"""vLLM's scheduler and vllm-ascend's whole runner read the golden blocks, as transformers recorded them.

Real: the launcher's configuration, vLLM's processor and scheduler, NPUModelRunner from its weights to its sampled
tokens, with prompts and decodes of several requests in one step. Simulated: the operators (strict, on the CPU), streams
and events. Not shown: memory (the profiling run is tests/npu/vllm_ascend/test_memory_of_a_die.py's), kernels,
the replay of graphs of whole steps.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from selftest.check import blocks
from tests.npu.vllm_ascend.conftest import NEW, Nothing
from tests.npu.vllm_ascend.whole_runner import DEMO, TOKENS, read, started


def test_the_golden_blocks_are_read_as_recorded(on_the_host: None, layers: Any, engine_config: Any):
    config = engine_config(MODELS_DIR=str(DEMO), VLM_ENFORCE_EAGER="1")
    runner, scheduler = started(config, layers)
    assert read(config, runner, scheduler, len(blocks()), TOKENS) >= 3
    if not NEW:
        assert len(runner.attn_mask_builder.attn_mask_cache) == 2048, "a larger one takes host memory from the start"


@pytest.mark.skipif(not NEW, reason="stack 0.11.1 compiles nothing ahead of time")
def test_the_model_compiled_in_pieces_reads_as_recorded(
    on_the_host: None, layers: Any, engine_config: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """By Dynamo and vLLM's ahead-of-time cache, in the pieces that are captured as graphs; here none is. Fusion passes
    are left out: they ask for a device."""
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path))
    monkeypatch.setattr(vars(torch)["npu"], "Stream", Nothing)
    passes = layers("compilation.graph_fusion_pass_manager").GraphFusionPassManager
    monkeypatch.setattr(passes, "configure", lambda *_: None)
    config = engine_config(MODELS_DIR=str(DEMO), VLM_GRAPH_MODE="piecewise", VLM_ARGS="--max-num-seqs 4")
    runner, scheduler = started(config, layers)
    runner.cudagraph_dispatcher.keys_initialized = False  # the pieces run as they are
    read(config, runner, scheduler, count=1, most=4)
    assert list(tmp_path.glob("torch_compile_cache/torch_aot_compile/*/*/model")), (
        "what a replica that starts again loads"
    )
