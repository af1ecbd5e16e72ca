# SPDX-License-Identifier: Apache-2.0
"""vLLM's own HunyuanOCR with our inputs, and with transformers' positions in the tower and in the language model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from vllm.config import VllmConfig
from vllm.model_executor.models.hunyuan_vision import HunYuanVisionPatchEmbed, HunYuanVLDummyInputsBuilder
from vllm.model_executor.models.hunyuan_vision import HunYuanVLForConditionalGeneration as VllmHunYuanVL
from vllm.multimodal import MULTIMODAL_REGISTRY

from ..onednn import use_onednn
from .multimodal import BoundedHunYuanVLInfo, BoundedHunYuanVLProcessor, start_token


class PatchEmbed(HunYuanVisionPatchEmbed):
    """Patches with their positions, resampled to the very grid, as transformers' class does it. Parameters are vLLM's.

    vLLM's own resamples to a grid that is a tenth of a patch larger, which moves each position by a little.
    """

    def forward(self, pixel_values: Tensor, grid_thw: list[list[int]]) -> Tensor:
        """[1, patches, width] of ``pixel_values`` [patches, 3 * patch * patch]."""
        side = self.patch_size
        patches = self.patch_embedding(pixel_values.reshape(-1, self.num_channels, side, side)).flatten(1)
        positions = torch.cat([self.positions(rows, columns) for _, rows, columns in grid_thw])
        return (patches + positions.to(patches.dtype)).unsqueeze(0)

    def positions(self, rows: int, columns: int) -> Tensor:
        """[rows * columns, width] float32; the first of the table belongs to no patch."""
        edge, width = self.position_edge, self.embed_dim
        table = self.position_embedding.weight[1:].reshape(1, edge, edge, width).permute(0, 3, 1, 2).float()
        found = torch.nn.functional.interpolate(
            table, size=(rows, columns), mode=self.interpolate_mode, align_corners=False
        )
        return found.reshape(width, rows * columns).T


class XDRotation(nn.Module):
    """XD-RoPE as transformers' class computes it, in every layer: each quarter of a head turns by an axis of
    its own. ``table`` [positions, head] holds cosines, then sines, of half a head.

    vLLM's own gives the axes to quarters of each half instead, so that the two numbers of a pair turn by one angle. The
    published weights were trained with the other; text, whose axes are equal, is the same by both.
    """

    table: Tensor

    def __init__(self, table: Tensor, sections: list[int]) -> None:
        super().__init__()
        self.register_buffer("table", table, persistent=False)
        self.widths = [2 * section for section in sections]

    def forward(self, positions: Tensor, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """``positions`` [axes, tokens] int64, ``query`` and ``key`` [tokens, heads * head]; the same shapes again."""
        cosines, sines = (self.by_axis(half, query.dtype) for half in self.table[positions].chunk(2, dim=-1))
        return turned(query, cosines, sines), turned(key, cosines, sines)

    def by_axis(self, half: Tensor, dtype: torch.dtype) -> Tensor:
        """[tokens, 1, head] of [axes, tokens, half a head]: the first widths from axis 0, the next from axis 1."""
        parts = torch.cat((half, half), dim=-1).split(self.widths, dim=-1)
        return torch.cat([part[axis] for axis, part in enumerate(parts)], dim=-1).unsqueeze(1).to(dtype)


def turned(values: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """[tokens, heads * head] turned by angles that are the same for all heads."""
    heads = values.view(len(values), -1, cosines.shape[-1])
    first, second = heads.chunk(2, dim=-1)
    return (heads * cosines + torch.cat((-second, first), dim=-1) * sines).view(values.shape)


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
        use_onednn(self)
