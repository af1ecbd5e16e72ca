# SPDX-License-Identifier: Apache-2.0
"""PaddleOCR-VL for vLLM: vision tower, projector, language model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn
from vllm.config import VllmConfig
from vllm.model_executor.models.ernie45 import Ernie4_5ForCausalLM
from vllm.model_executor.models.interfaces import SupportsMRoPE, SupportsMultiModal, SupportsPP
from vllm.model_executor.models.utils import AutoWeightsLoader, PPMissingLayer, WeightsMapper, maybe_prefix
from vllm.multimodal import MULTIMODAL_REGISTRY
from vllm.multimodal.inputs import MultiModalFeatureSpec
from vllm.sequence import IntermediateTensors

from ..onednn import use_onednn
from ..settings import in_int8
from ..vllm_names import keeps_on_host
from .config import PaddleOCRVLConfig, PaddleOCRVLTextConfig
from .multimodal import PaddleOCRVLDummyInputsBuilder, PaddleOCRVLMultiModalProcessor, PaddleOCRVLProcessingInfo
from .passes import Grid
from .positions import ImageSpan, mrope_positions
from .processing import IMAGE_PROMPT
from .projector import Projector
from .vision import VisionModel


def build_language_model(vllm_config: VllmConfig, config: PaddleOCRVLTextConfig, prefix: str) -> Ernie4_5ForCausalLM:
    """vLLM's ERNIE-4.5 of ``config``'s sizes with PaddleOCR-VL's rotary embedding; weights by its own loader."""
    text_config = vllm_config.with_hf_config(config, architectures=["Ernie4_5ForCausalLM"])
    # vLLM's class sets the missing method in its constructor.
    model = Ernie4_5ForCausalLM(vllm_config=text_config, prefix=prefix)  # type: ignore[abstract]
    # ERNIE-4.5 turns neighbouring features as pairs; PaddleOCR-VL was trained with the halves of the head
    # as pairs. vLLM's class sets the former after construction, so it is set back.
    for layer in model.model.layers:
        if not isinstance(layer, PPMissingLayer):
            layer.self_attn.rotary_emb.is_neox_style = True
    use_onednn(model)
    return model


@MULTIMODAL_REGISTRY.register_processor(
    PaddleOCRVLMultiModalProcessor,
    info=PaddleOCRVLProcessingInfo,
    dummy_inputs=PaddleOCRVLDummyInputsBuilder,
)
@keeps_on_host("image_grid_thw")
class PaddleOCRVLForConditionalGeneration(nn.Module, SupportsMultiModal, SupportsMRoPE, SupportsPP):
    """The published checkpoint's model; arXiv 2510.14528."""

    packed_modules_mapping = {
        "qkv_proj": ["q_proj", "k_proj", "v_proj"],
        "gate_up_proj": ["gate_proj", "up_proj"],
    }

    # Prefixes in the order in which they are tried: transformers >= 5 spells three of them differently.
    hf_to_vllm_mapper = WeightsMapper(
        orig_to_new_prefix={
            "model.visual.": "visual.",
            "model.projector.": "mlp_AR.",
            "model.language_model.": "language_model.model.",
            "model.": "language_model.model.",
            "lm_head.": "language_model.lm_head.",
        }
    )

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        config = cast(PaddleOCRVLConfig, vllm_config.model_config.hf_config)
        quant = vllm_config.quant_config
        self.config = config
        self.merge = config.vision_config.spatial_merge_size
        self.visual = VisionModel(config.vision_config, quant, maybe_prefix(prefix, "visual"))
        self.mlp_AR = Projector(config, quant, maybe_prefix(prefix, "mlp_AR"))
        self.language_model = build_language_model(
            vllm_config, config.text_config, maybe_prefix(prefix, "language_model")
        )
        if in_int8(os.environ):
            from ..int8 import use_int8

            # The projector and the embeddings stay as they are, and with them a choice of a token that shares theirs.
            use_int8(self.visual.vision_model.encoder, self.language_model.model)
            if not config.text_config.tie_word_embeddings:
                use_int8(self.language_model.lm_head)

    @classmethod
    def get_placeholder_str(cls, modality: str, i: int) -> str | None:
        if modality == "image":
            return IMAGE_PROMPT
        raise ValueError(f"PaddleOCR-VL reads images, not {modality}")

    # vLLM's interface promises a tensor; ERNIE-4.5 gives a pipeline's next stage an IntermediateTensors.
    def get_language_model(self) -> Ernie4_5ForCausalLM:  # type: ignore[override]
        return self.language_model

    def make_empty_intermediate_tensors(
        self, batch_size: int, dtype: torch.dtype, device: torch.device
    ) -> IntermediateTensors:
        return self.language_model.make_empty_intermediate_tensors(batch_size, dtype, device)

    def get_mrope_input_positions(
        self, input_tokens: list[int], mm_features: list[MultiModalFeatureSpec]
    ) -> tuple[Tensor, int]:
        """3-D positions [3, tokens] and the offset for later tokens, from the images' own places and grids.

        The prompt's token ids are not searched for image tokens: a user can write those.
        """
        spans = []
        for feature in mm_features:
            assert feature.data is not None, "the worker gets every image's data"
            [(_, rows, columns)] = as_grids(feature.data["image_grid_thw"].data)
            spans.append(ImageSpan(feature.mm_position.offset, rows // self.merge, columns // self.merge))
        return mrope_positions(len(input_tokens), spans)

    def embed_multimodal(self, **kwargs: Any) -> tuple[Tensor, ...]:
        """One [tokens, hidden] tensor for each image; the tower goes over all of them together."""
        patches, grids = kwargs.get("pixel_values"), kwargs.get("image_grid_thw")
        if patches is None or grids is None:
            return ()
        grids = as_grids(grids)
        if not isinstance(patches, Tensor):
            patches = torch.cat(tuple(patches))
        features = self.mlp_AR(self.visual(patches, grids))
        return features.split([rows * columns // self.merge**2 for _, rows, columns in grids])

    # vLLM's interface names only the argument that pipelines add.
    def forward(  # type: ignore[override]
        self,
        input_ids: Tensor | None,
        positions: Tensor,
        intermediate_tensors: IntermediateTensors | None = None,
        inputs_embeds: Tensor | None = None,
        **kwargs: Any,
    ) -> Tensor | IntermediateTensors:
        return self.language_model(input_ids, positions, intermediate_tensors, inputs_embeds)

    def compute_logits(self, hidden_states: Tensor) -> Tensor | None:
        return self.language_model.compute_logits(hidden_states)

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> set[str]:
        loaded = AutoWeightsLoader(self).load_weights(weights, mapper=self.hf_to_vllm_mapper)
        if in_int8(os.environ):
            from ..int8 import balance

            for norm, layer in self.norms_with_readers():
                balance(norm, layer)
        return loaded

    def norms_with_readers(self) -> Iterator[tuple[nn.Module, nn.Module]]:
        """Each norm whose features one linear layer alone reads, with that layer."""
        layer: Any
        for layer in self.visual.vision_model.encoder.layers:
            yield layer.layer_norm1, layer.self_attn.qkv_proj
            yield layer.layer_norm2, layer.mlp.fc1
        for layer in self.language_model.model.layers:
            if not isinstance(layer, PPMissingLayer):
                yield layer.input_layernorm, layer.self_attn.qkv_proj
                yield layer.post_attention_layernorm, layer.mlp.gate_up_proj


def as_grids(grids: Any) -> list[Grid]:
    """(1, rows, columns) of each image, from [images, 3] or a list of [3]; on the host, see vllm_names."""
    sizes = grids.view(-1, 3).tolist() if isinstance(grids, Tensor) else grids
    return [(int(frames), int(rows), int(columns)) for frames, rows, columns in sizes]
