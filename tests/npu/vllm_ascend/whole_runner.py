# SPDX-License-Identifier: Apache-2.0
"""The whole runner of vllm-ascend and vLLM's scheduler: started with a configuration, and the golden blocks read."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from selftest.check import NAME, NEAR_TIE, blocks
from served_weights.catalog import Question
from tests.npu.vllm_ascend.conftest import NEW
from tests.support.paths import ROOT

DEMO = ROOT / "models/demo"
WEIGHTS = DEMO / "PaddleOCR-VL"
CACHE_BYTES = 256 << 20
TOKENS = 17  # of each block: one of them ends by itself after 16


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
