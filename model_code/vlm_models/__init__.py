# SPDX-License-Identifier: Apache-2.0
"""Models that this project adds to vLLM, as a plugin of the group ``vllm.general_plugins``.

vLLM calls :func:`register` in the API server, the engine core, every worker and the process that
inspects model classes, sometimes more than once: it must be quick, idempotent and touch no device.
"""

from __future__ import annotations

# Architecture in config.json -> "module:Class". Strings, so that a model is imported only where it runs.
# The last component of the module must not be the name of a file in vllm/model_executor/models:
# vLLM caches what it learns about a class under that file's hash, and would take ours for its own.
MODELS = {
    "PaddleOCRVLForConditionalGeneration": "vlm_models.paddleocr_vl.model:PaddleOCRVLForConditionalGeneration",
    "Qwen2VLForConditionalGeneration": "vlm_models.qwen2_vl.model:Qwen2VLForConditionalGeneration",
    "HunYuanVLForConditionalGeneration": "vlm_models.hunyuan_vl.model:HunYuanVLForConditionalGeneration",
}
# Their model code is vLLM's own, so they are registered where this vLLM has it (HunyuanOCR's from 0.12 on, and no more
# in 0.32).
INPUTS_ONLY = frozenset(("Qwen2VLForConditionalGeneration", "HunYuanVLForConditionalGeneration"))


def register() -> None:
    """Register architectures, configurations, processors and the media connector with vLLM."""
    from .media import register_media_connector
    from .paddleocr_vl.config import register_config
    from .registry import is_known, register_model

    for architecture, target in MODELS.items():
        if architecture not in INPUTS_ONLY or is_known(architecture):
            register_model(architecture, target)
    register_config()
    register_media_connector()
