# SPDX-License-Identifier: Apache-2.0
"""vLLM's own HunyuanOCR with our inputs, and with transformers' positions in the tower and in the language model."""

from __future__ import annotations

from typing import Any

from vllm.config import VllmConfig
from vllm.model_executor.models.hunyuan_vision import HunYuanVLDummyInputsBuilder
from vllm.model_executor.models.hunyuan_vision import HunYuanVLForConditionalGeneration as VllmHunYuanVL
from vllm.multimodal import MULTIMODAL_REGISTRY

from .embedding import PatchEmbed
from .multimodal import BoundedHunYuanVLInfo, BoundedHunYuanVLProcessor, start_token
from .rotation import XDRotation


@MULTIMODAL_REGISTRY.register_processor(
    BoundedHunYuanVLProcessor, info=BoundedHunYuanVLInfo, dummy_inputs=HunYuanVLDummyInputsBuilder
)
class HunYuanVLForConditionalGeneration(VllmHunYuanVL):
    """The published checkpoint's model."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        config = vllm_config.model_config.hf_config
        config.image_start_token_id = start_token(config)
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        if self.visual is not None:
            self.visual.embeddings = PatchEmbed(config.vision_config)
        language_model: Any = self.language_model
        for layer in language_model.model.layers:
            # The table is one for all layers.
            layer.self_attn.rotary_emb = XDRotation(
                layer.self_attn.rotary_emb.cos_sin_cache, config.rope_scaling["xdrope_section"]
            )
