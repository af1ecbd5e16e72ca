# SPDX-License-Identifier: Apache-2.0
"""vllm-ascend's code for a 310P with our launcher's configuration: what it registers, and its whole runner, which reads
the golden blocks as transformers recorded them.

Real: vLLM's processor and scheduler, NPUModelRunner310 from its weights to its sampled tokens, its layers, its masks,
its cache in tiles, with prompts and decodes of several requests in one step. Simulated: the operators (strict, on the
CPU). Not shown: memory, kernels, what a card makes of rows that are no multiple of 16 in the language model.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.npu.inference_card.conftest import SOC
from tests.npu.vllm_ascend import whole_runner
from tests.npu.vllm_ascend.conftest import registry_of_layers
from tests.npu.vllm_ascend.whole_runner import DEMO, read, started

BLOCKS, TOKENS = 3, 10


def test_the_launchers_configuration_is_a_310ps(layers: Any, engine_config: Any):
    config = engine_config(SOC_VERSION=SOC)
    assert config.model_config.dtype == torch.float16 and config.model_config.enforce_eager
    assert config.compilation_config.cudagraph_mode.name == "NONE"
    assert config.parallel_config.worker_cls == "vllm_ascend._310p.worker_310p.NPUWorker310"
    assert config.cache_config.block_size * 128 <= 128 * 128


def test_its_layers_take_the_places_of_vllms(layers: Any, engine_config: Any):
    config = engine_config(SOC_VERSION=SOC)
    layers("utils").register_ascend_customop(config)
    registry = registry_of_layers().op_registry_oot
    for name in ("RMSNorm", "SiluAndMul", "MRotaryEmbedding", "VocabParallelEmbedding", "ParallelLMHead"):
        assert registry[name].__name__.endswith("310"), registry[name]


def test_the_golden_blocks_are_read_as_recorded(
    on_the_host: None, layers: Any, engine_config: Any, monkeypatch: pytest.MonkeyPatch
):
    from vlm_models.paddleocr_vl.attention import BACKENDS

    monkeypatch.setattr(BACKENDS["npu-atb-310p"], "supports", classmethod(lambda *_: True))
    monkeypatch.setattr(whole_runner, "CACHE_BYTES", 64 << 20)
    config = engine_config(MODELS_DIR=str(DEMO), SOC_VERSION=SOC)
    runner, scheduler = started(config, layers, layers("_310p.model_runner_310p").NPUModelRunner310)
    assert read(config, runner, scheduler, BLOCKS, TOKENS) >= 2
    assert runner.kv_caches[0][0].shape[-1] == 16 and runner.kv_caches[0][0].dtype == torch.float16
