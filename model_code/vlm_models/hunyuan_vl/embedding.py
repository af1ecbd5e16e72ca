# SPDX-License-Identifier: Apache-2.0
"""Patches with their positions, resampled to the very grid, as transformers' class does it.

vLLM's own resamples to a grid that is a tenth of a patch larger, which moves each position by a little.
"""

from __future__ import annotations

import torch
from torch import Tensor
from vllm.model_executor.models.hunyuan_vision import HunYuanVisionPatchEmbed


class PatchEmbed(HunYuanVisionPatchEmbed):
    """Parameters are vLLM's."""

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
