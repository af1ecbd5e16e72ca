# SPDX-License-Identifier: Apache-2.0
"""vLLM's own Qwen2-VL with our inputs."""

from __future__ import annotations

from vllm.model_executor.models.qwen2_vl import Qwen2VLDummyInputsBuilder
from vllm.model_executor.models.qwen2_vl import Qwen2VLForConditionalGeneration as VllmQwen2VL
from vllm.multimodal import MULTIMODAL_REGISTRY

from .multimodal import BoundedQwen2VLInfo, BoundedQwen2VLProcessor


@MULTIMODAL_REGISTRY.register_processor(
    BoundedQwen2VLProcessor, info=BoundedQwen2VLInfo, dummy_inputs=Qwen2VLDummyInputsBuilder
)
class Qwen2VLForConditionalGeneration(VllmQwen2VL):
    """The published checkpoints' model."""
