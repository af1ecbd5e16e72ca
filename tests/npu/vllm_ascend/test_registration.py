# SPDX-License-Identifier: Apache-2.0
"""The plugin beside vllm-ascend's Python code, under its platform, without a device."""

from __future__ import annotations

import importlib
import pkgutil


def test_the_platform_is_ascend(platform):
    assert type(platform).__name__ == "NPUPlatform" and platform.device_type == "npu"


def test_the_plugin_registers_and_every_module_imports(platform):
    from vllm import ModelRegistry

    import vlm_models
    from vlm_models.registry import is_known

    vlm_models.register()
    vlm_models.register()
    names = [info.name for info in pkgutil.walk_packages(vlm_models.__path__, "vlm_models.")]
    # The code of a family builds on vLLM's own model of it, which 0.11 does not have of HunyuanOCR.
    absent = tuple(vlm_models.MODELS[name].rpartition(".")[0] for name in vlm_models.INPUTS_ONLY if not is_known(name))
    for name in names:
        if not name.startswith(absent):
            importlib.import_module(name)
    assert "vlm_models.paddleocr_vl.attention.npu" in names
    entry = ModelRegistry.models["PaddleOCRVLForConditionalGeneration"]
    described = entry.inspect_model_cls()
    assert described.supports_multimodal and not described.is_pooling_model
    assert entry.load_model_cls().__module__ == "vlm_models.paddleocr_vl.model"


def test_nothing_of_ours_starts_the_device(platform):
    # torch_npu adds the attribute, which torch's annotations do not know.
    assert not importlib.import_module("torch").npu.is_initialized()


def test_the_runner_calls_what_the_model_has(platform):
    """vllm-ascend's model runner imports, and asks for positions with the arguments that our model takes."""
    import inspect

    runner = importlib.import_module("vllm_ascend.worker.model_runner_v1")
    import vllm.v1.worker.gpu_model_runner as base

    from vlm_models.paddleocr_vl.model import PaddleOCRVLForConditionalGeneration

    sources = [inspect.getsource(module) for module in (runner, base)]
    assert any("get_mrope_input_positions(" in source for source in sources)
    parameters = list(inspect.signature(PaddleOCRVLForConditionalGeneration.get_mrope_input_positions).parameters)
    assert parameters == ["self", "input_tokens", "mm_features"]
