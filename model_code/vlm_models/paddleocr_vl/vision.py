# SPDX-License-Identifier: Apache-2.0
"""The vision tower, over the packed patches of all images of a batch.

T: patches of all images of a pass, in merge-block order. Nothing loops over images here but the lookup of
their position embeddings and, where a device's attention takes no packed lengths, its backend.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from vllm.distributed import divide, get_tensor_model_parallel_world_size
from vllm.model_executor.layers.linear import ColumnParallelLinear, QKVParallelLinear, RowParallelLinear
from vllm.model_executor.layers.quantization import QuantizationConfig
from vllm.model_executor.utils import set_weight_attrs

from ..onednn import use_onednn
from ..settings import VisionSettings
from .attention import PackedAttention, packed_attention
from .config import PaddleOCRVLVisionConfig
from .linear import linear_add, perceptron
from .passes import Grid, cut_into_passes, default_patches_per_pass
from .positions import GridEmbeddingCache
from .weights import load_stacked


class PatchEmbedding(nn.Linear):
    """A convolution whose kernel is its stride, as the matrix product that it is; [T, 588] -> [T, hidden]."""

    def __init__(self, config: PaddleOCRVLVisionConfig) -> None:
        super().__init__(config.num_channels * config.patch_size**2, config.hidden_size)
        # The checkpoint holds the convolution's [hidden, 3, 14, 14].
        set_weight_attrs(self.weight, {"weight_loader": lambda kernel, weight: kernel.data.copy_(weight.flatten(1))})


class VisionEmbeddings(nn.Module):
    """Patch embedding, and the learned position grid that is resampled to each image's."""

    def __init__(self, config: PaddleOCRVLVisionConfig) -> None:
        super().__init__()
        self.patch_embedding = PatchEmbedding(config)
        self.position_embedding = nn.Embedding((config.image_size // config.patch_size) ** 2, config.hidden_size)


class VisionAttention(nn.Module):
    def __init__(self, config: PaddleOCRVLVisionConfig, backend: PackedAttention, quant: Any, prefix: str) -> None:
        super().__init__()
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.heads = divide(config.num_attention_heads, get_tensor_model_parallel_world_size())
        self.backend = backend
        hidden, heads = config.hidden_size, config.num_attention_heads
        common = {"quant_config": quant, "return_bias": False}
        self.qkv_proj = QKVParallelLinear(hidden, self.head_dim, heads, prefix=f"{prefix}.qkv_proj", **common)
        self.out_proj = RowParallelLinear(hidden, hidden, prefix=f"{prefix}.out_proj", **common)

    def forward(self, x: Tensor, residual: Tensor, cos: Tensor, sin: Tensor, plan: Any) -> Tensor:
        """Attention over ``x``, plus ``residual``; all [T, hidden]."""
        qkv = self.qkv_proj(x).view(-1, 3 * self.heads, self.head_dim)
        attended = self.backend.attend_rotated(qkv, cos, sin, plan)
        return linear_add(self.out_proj, attended.flatten(1), residual)


class VisionMLP(nn.Module):
    def __init__(self, config: PaddleOCRVLVisionConfig, rows: int, quant: Any, prefix: str) -> None:
        super().__init__()
        self.rows = rows
        hidden, inner = config.hidden_size, config.intermediate_size
        common = {"quant_config": quant, "return_bias": False}
        self.fc1 = ColumnParallelLinear(hidden, inner, prefix=f"{prefix}.fc1", **common)
        self.fc2 = RowParallelLinear(inner, hidden, prefix=f"{prefix}.fc2", **common)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """[T, hidden] -> [T, hidden]. Patches are independent here: an image larger than a pass goes in parts."""
        if len(x) <= self.rows:
            return self.part(x, residual)
        return torch.cat([self.part(*part) for part in zip(x.split(self.rows), residual.split(self.rows), strict=True)])

    def part(self, x: Tensor, residual: Tensor) -> Tensor:
        return perceptron(self.fc1, self.fc2, x, residual)


class VisionLayer(nn.Module):
    def __init__(
        self, config: PaddleOCRVLVisionConfig, backend: PackedAttention, rows: int, quant: Any, prefix: str
    ) -> None:
        super().__init__()
        self.layer_norm1 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.self_attn = VisionAttention(config, backend, quant, f"{prefix}.self_attn")
        self.layer_norm2 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.mlp = VisionMLP(config, rows, quant, f"{prefix}.mlp")

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, plan: Any) -> Tensor:
        x = self.self_attn(self.layer_norm1(x), x, cos, sin, plan)
        return self.mlp(self.layer_norm2(x), x)


class VisionEncoder(nn.Module):
    def __init__(
        self, config: PaddleOCRVLVisionConfig, backend: PackedAttention, rows: int, quant: Any, prefix: str
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            VisionLayer(config, backend, rows, quant, f"{prefix}.layers.{i}") for i in range(config.num_hidden_layers)
        )

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, plan: Any) -> Tensor:
        for layer in self.layers:
            x = layer(x, cos, sin, plan)
        return x


class VisionTransformer(nn.Module):
    """Patches -> features of each pass, [T, 3 * patch * patch] -> [T, hidden] in parts."""

    # parameter here -> its parts in the checkpoint
    stacked = {"qkv_proj": {"q_proj": "q", "k_proj": "k", "v_proj": "v"}}
    # In the published checkpoint, but not used: SigLIP's pooling head, and a table for another way of packing.
    unused = ("head.", "embeddings.packing_position_embedding.")

    def __init__(
        self, config: PaddleOCRVLVisionConfig, quant: QuantizationConfig | None = None, prefix: str = ""
    ) -> None:
        super().__init__()
        settings = VisionSettings.from_environment(os.environ)
        head_dim = config.hidden_size // config.num_attention_heads
        self.embeddings = VisionEmbeddings(config)
        table = self.embeddings.position_embedding.weight
        self.backend = packed_attention(table.device, table.dtype, head_dim, settings.attention)
        self.patches_per_pass = settings.patches_per_pass or default_patches_per_pass(config, table.device, table.dtype)
        self.encoder = VisionEncoder(config, self.backend, self.patches_per_pass, quant, f"{prefix}.encoder")
        self.post_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.grids = GridEmbeddingCache(config.spatial_merge_size, head_dim, config.rope_theta)
        use_onednn(self)

    def forward(self, patches: Tensor, grids: Sequence[Grid]) -> Iterator[Tensor]:
        """Features of the images' patches, in as many passes as the bound asks for, each made when it is asked for.

        Args:
            patches: [T, 3 * patch * patch] in the model's dtype, images one after another.
            grids: (1, rows, columns) of each image, on the host.

        Returns:
            [patches of the pass, hidden] of each pass.
        """
        passes = [grids[images] for images in cut_into_passes(grids, self.patches_per_pass)]
        parts = patches.split([sum(rows * columns for _, rows, columns in part) for part in passes])
        for part, images in zip(parts, passes, strict=True):
            yield self.one_pass(part, images)

    def one_pass(self, patches: Tensor, grids: Sequence[Grid]) -> Tensor:
        """Features of a pass, all images packed."""
        table = self.embeddings.position_embedding.weight
        places = [self.grids.get(rows, columns, table) for _, rows, columns in grids]
        learned, cos, sin = (
            torch.cat([getattr(place, name) for place in places]) if len(places) > 1 else getattr(places[0], name)
            for name in ("learned", "cos", "sin")
        )
        plan = self.backend.plan([rows * columns for _, rows, columns in grids], patches.device)
        x = self.embeddings.patch_embedding(patches) + learned
        return self.post_layernorm(self.encoder(x, cos, sin, plan))

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> set[str]:
        wanted = ((name, weight) for name, weight in weights if not name.startswith(self.unused))
        return load_stacked(self, wanted, self.stacked)


class VisionModel(nn.Module):
    """The level `vision_model` of the names in the checkpoint; it adds no computation."""

    def __init__(
        self, config: PaddleOCRVLVisionConfig, quant: QuantizationConfig | None = None, prefix: str = ""
    ) -> None:
        super().__init__()
        self.vision_model = VisionTransformer(config, quant, f"{prefix}.vision_model")

    def forward(self, patches: Tensor, grids: Sequence[Grid]) -> Iterator[Tensor]:
        return self.vision_model(patches, grids)
