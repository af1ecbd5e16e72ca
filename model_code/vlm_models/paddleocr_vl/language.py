# SPDX-License-Identifier: Apache-2.0
"""The language model: vLLM's ERNIE-4.5 with PaddleOCR-VL's rotary embedding."""

from __future__ import annotations

from vllm.config import VllmConfig
from vllm.model_executor.models.ernie45 import Ernie4_5ForCausalLM
from vllm.model_executor.models.utils import PPMissingLayer

from .config import PaddleOCRVLTextConfig


def build_language_model(vllm_config: VllmConfig, config: PaddleOCRVLTextConfig, prefix: str) -> Ernie4_5ForCausalLM:
    """ERNIE-4.5 of ``config``'s sizes; weights by its own loader."""
    text_config = vllm_config.with_hf_config(config, architectures=["Ernie4_5ForCausalLM"])
    # vLLM's class sets the missing method in its constructor.
    model = Ernie4_5ForCausalLM(vllm_config=text_config, prefix=prefix)  # type: ignore[abstract]
    # ERNIE-4.5 turns neighbouring features as pairs; PaddleOCR-VL was trained with the halves of the head
    # as pairs. vLLM's class sets the former after construction, so it is set back.
    for layer in model.model.layers:
        if not isinstance(layer, PPMissingLayer):
            layer.self_attn.rotary_emb.is_neox_style = True
    return model
