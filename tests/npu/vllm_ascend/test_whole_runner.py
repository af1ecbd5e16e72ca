# SPDX-License-Identifier: Apache-2.0
"""vLLM's scheduler and vllm-ascend's whole runner read the golden blocks, as transformers recorded them.

Real: the launcher's configuration, vLLM's processor and scheduler, NPUModelRunner from its weights to its sampled
tokens, with prompts and decodes of several requests in one step. Simulated: the operators (strict, on the CPU), streams
and events. Not shown: memory (the profiling run is tests/npu/vllm_ascend/test_memory_of_a_die.py's), kernels,
the replay of graphs of whole steps.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from selftest.check import NAME, NEAR_TIE, blocks
from served_weights.catalog import Question
from tests.npu.vllm_ascend.conftest import NEW
from tests.support import simulated_graphs
from tests.support.paths import ROOT

DEMO = ROOT / "models/demo"
WEIGHTS = DEMO / "PaddleOCR-VL"
CACHE_BYTES = 256 << 20
TOKENS = 17  # of each block: one of them ends by itself after 16


class Nothing:
    """An event or a stream. A class, as Dynamo asks for it."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def done(self, *_: Any) -> None:
        pass

    record = synchronize = wait = wait_stream = wait_event = done


# Of torch.npu: what the runner asks of a device beside its graphs and streams.
DEVICE = {
    "Event": Nothing,
    "default_stream": lambda *_: None,
    "max_memory_allocated": lambda *_: 0,
    "memory_allocated": lambda *_: 0,
    "reset_peak_memory_stats": lambda *_: None,
}


@pytest.fixture
def on_the_host(layers: Any, cpu_kernels: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A device that is the CPU: torch.npu's functions, and the operators that vLLM and vllm-ascend register for it."""
    from vlm_models.paddleocr_vl.attention import NpuFusionAttention

    monkeypatch.setattr(NpuFusionAttention, "supports", classmethod(lambda *_: True))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self, *_: self)
    for module in (importlib.import_module("vllm.v1.worker.gpu_model_runner"), layers("worker.model_runner_v1")):
        monkeypatch.setattr(module, "is_pin_memory_available", lambda: False, raising=False)
        monkeypatch.setattr(module, "PIN_MEMORY", False, raising=False)
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *args, pin_memory=False, **named: zeros(*args, **named))
    npu = vars(torch)["npu"]
    simulated_graphs.install(npu, monkeypatch)
    for name, stand_in in DEVICE.items():
        monkeypatch.setattr(npu, name, stand_in)
    library = torch.library.Library("vllm", "IMPL")
    place = "model_executor.layers.attention.attention" if NEW else "attention.layer"
    attention, own, linear = (
        importlib.import_module(f"vllm.{place}"),
        layers("ops.register_custom_ops"),
        layers("ops.linear"),
    )
    patterns = {attention: "(unified_attention.*)(?<!_fake)", own: "_(.+)_impl", linear: "(unquantized_gemm)"}
    for module, pattern in patterns.items():
        for name, function in vars(module).items():
            known = re.fullmatch(pattern, name)
            if known and torch._C._dispatch_has_kernel_for_dispatch_key(f"vllm::{known[1]}", "PrivateUse1"):
                library.impl(known[1], function, "CPU")
    yield
    library._destroy()


def started(config: Any, layers: Any, kind: Any = None) -> tuple[Any, Any]:
    """The runner with its weights and cache, and the scheduler of this cache; `kind` is the runner's class."""
    from vllm.config import set_current_vllm_config
    from vllm.v1.core.kv_cache_utils import get_kv_cache_configs
    from vllm.v1.structured_output import StructuredOutputManager

    config.device_config.device = config.load_config.device = torch.device("cpu")
    layers("ascend_config").init_ascend_config(config)
    layers("utils").register_ascend_customop(config)
    with set_current_vllm_config(config):
        kind = kind or layers("worker.model_runner_v1").NPUModelRunner
        runner = kind(config, torch.device("cpu"))
        runner.load_model()
        [cache] = get_kv_cache_configs(config, [runner.get_kv_cache_spec()], [CACHE_BYTES])
        config.cache_config.num_gpu_blocks = cache.num_blocks
        runner.initialize_kv_cache(cache)
    scheduler, size = config.scheduler_config.get_scheduler_cls(), config.cache_config.block_size
    return runner, scheduler(config, cache, StructuredOutputManager(config), block_size=size)


def processing(config: Any) -> tuple[Any, Any]:
    """What makes a request of a prompt, and its tokenizer."""
    new = importlib.util.find_spec("vllm.tokenizers")  # the names of vLLM 0.23.0, else of 0.11.1
    tokenizers = importlib.import_module("vllm.tokenizers" if new else "vllm.transformers_utils.tokenizer")
    module, kind = ("input_processor", "InputProcessor") if new else ("processor", "Processor")
    tokenizer = tokenizers.get_tokenizer(str(WEIGHTS))
    found = getattr(importlib.import_module(f"vllm.v1.engine.{module}"), kind)
    return (found(config) if NEW else found(config, tokenizer)), tokenizer


def request(name: str, processor: Any, tokenizer: Any, picture: Path, question: Question, most: int = TOKENS) -> Any:
    from vllm import SamplingParams
    from vllm.v1.request import Request

    said = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": question.prompt}]}]
    prompt = {
        "prompt": tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True),
        "multi_modal_data": {"image": Image.open(picture).convert("RGB")},
        "mm_processor_kwargs": {"min_pixels": question.min_pixels, "max_pixels": question.max_pixels},
    }
    given: list[Any] = [name, prompt, SamplingParams(temperature=0, max_tokens=most)]
    made = processor.process_inputs(*given, *([("generate",)] if NEW else []))
    made = made[1] if isinstance(made, tuple) else made
    return Request.from_engine_core_request(made, None)


def run(runner: Any, scheduler: Any, requests: list[Any]) -> tuple[dict[str, list[int]], int]:
    """The tokens of each request, and how many steps had prompts beside decodes: each request comes a step after the
    one before it.

    Where the stack plans a step before it has the tokens of the one before, as 0.23.0 does by default, so does this.
    """
    tokens: dict[str, list[int]] = {request.request_id: [] for request in requests}
    waiting, mixed = list(requests), 0
    ahead = int(bool(scheduler.scheduler_config.async_scheduling))
    steps: list[tuple[Any, Any]] = []
    while waiting or scheduler.has_unfinished_requests():
        if waiting:
            scheduler.add_request(waiting.pop(0))
        step = scheduler.schedule()
        mixed += len({count > 1 for count in step.num_scheduled_tokens.values()}) > 1
        made = runner.execute_model(step)
        steps.append((step, runner.sample_tokens(None) if made is None else made))
        if len(steps) <= ahead:
            continue
        step, made = steps.pop(0)
        made = made.get_output() if hasattr(made, "get_output") else made
        for outputs in scheduler.update_from_output(step, made).values():
            for one in outputs.outputs:
                tokens[one.request_id] += one.new_token_ids
    return tokens, mixed


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


def read(config: Any, runner: Any, scheduler: Any, count: int, most: int) -> int:
    """Raise unless the first blocks are read as recorded, at most so many tokens of each; returns how many steps had
    prompts beside decodes."""
    processor, tokenizer = processing(config)
    recorded = json.loads((WEIGHTS / NAME).read_text())
    question = Question.from_entry(recorded["question"], NAME)
    requests = [request(path.name, processor, tokenizer, path, question, most) for path in blocks()[:count]]
    tokens, mixed = run(runner, scheduler, requests)
    for block in recorded["blocks"]:
        if block["image"] not in tokens:
            continue
        ours, theirs = tokens[block["image"]], block["tokens"][:most]
        assert len(ours) == len(theirs)
        same = next((at for at, pair in enumerate(zip(ours, theirs)) if len(set(pair)) > 1), len(theirs))
        assert same == len(theirs) or block["margins"][same] < NEAR_TIE, (block["text"], tokenizer.decode(ours))
    return mixed
