# SPDX-License-Identifier: Apache-2.0
"""From the tower's features to the language model's: each 2x2 block of patches becomes one token."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from vllm.model_executor.layers.linear import ColumnParallelLinear, RowParallelLinear

from ..onednn import use_onednn
from .config import PaddleOCRVLConfig
from .linear import linear_gelu


class Projector(nn.Module):
    """LayerNorm, merge, two-layer perceptron; [T, vision hidden] -> [T / 4, text hidden]."""

    def __init__(self, config: PaddleOCRVLConfig, quant: Any = None, prefix: str = "") -> None:
        super().__init__()
        vision = config.vision_config
        self.merged = vision.hidden_size * vision.spatial_merge_size**2
        self.pre_norm = nn.LayerNorm(vision.hidden_size, eps=1e-5)
        text, common = config.text_config.hidden_size, {"quant_config": quant, "return_bias": False}
        self.linear_1 = ColumnParallelLinear(self.merged, self.merged, prefix=f"{prefix}.linear_1", **common)
        self.linear_2 = RowParallelLinear(self.merged, text, prefix=f"{prefix}.linear_2", **common)
        use_onednn(self)

    def forward(self, passes: Iterable[Tensor]) -> Tensor:
        """Features of the tower's passes, each taken while a CPU's cache still holds it, to one tensor of tokens."""
        return torch.cat([self.one_pass(features) for features in passes])

    def one_pass(self, features: Tensor) -> Tensor:
        # Patches come in merge-block order: the patches of a block are neighbours already.
        merged = self.pre_norm(features).view(-1, self.merged)
        return self.linear_2(linear_gelu(self.linear_1, merged, "none"))
