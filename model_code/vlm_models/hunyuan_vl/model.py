# SPDX-License-Identifier: Apache-2.0
"""vLLM's own HunyuanOCR with our inputs."""

from __future__ import annotations

from vllm.config import VllmConfig
from vllm.model_executor.models.hunyuan_vision import HunYuanVLForConditionalGeneration as VllmHunYuanVL
from vllm.multimodal import MULTIMODAL_REGISTRY

from .multimodal import BoundedHunYuanVLDummyInputs, BoundedHunYuanVLInfo, BoundedHunYuanVLProcessor, start_token


@MULTIMODAL_REGISTRY.register_processor(
    BoundedHunYuanVLProcessor, info=BoundedHunYuanVLInfo, dummy_inputs=BoundedHunYuanVLDummyInputs
)
class HunYuanVLForConditionalGeneration(VllmHunYuanVL):
    """The published checkpoint's model."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        config = vllm_config.model_config.hf_config
        config.image_start_token_id = start_token(config)
        super().__init__(vllm_config=vllm_config, prefix=prefix)
