# SPDX-License-Identifier: Apache-2.0
"""Ascend NPUs: torch_npu's fused attention over packed sequences, and its rotary kernel.

Two calls do the same. ``npu_fusion_attention`` is documented and public, so it is the default;
``_npu_flash_attention_unpad`` (the ATB library) is what vllm-ascend 0.11 calls for other vision towers.
Neither reads a length back from the device: both take them from the host. A 310P has the second one alone, in float16.
Interfaces: schemas of torch_npu 2.7.1; use in vllm-ascend (0.18 mm_encoder_attention; 0.11 patch_qwen2_5_vl).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor

from .base import RotationFirst

# ATB on a 310P wants as many rows as a whole number of tiles (restrictions of SelfAttentionOperation, PA_ENCODER).
TILE = 16
# The matrix unit works on 16 x 16 tiles, and the kernels are tuned for heads of 64 and 128 features: 72 are
# filled up with zeros, which change neither scores nor the features that are kept.
KERNEL_HEAD_DIM = 128


class NpuAttention(RotationFirst):
    """What the two calls share."""

    @classmethod
    def supports(cls, device: torch.device, dtype: torch.dtype) -> bool:
        return device.type == "npu" and dtype in (torch.float16, torch.bfloat16)

    def widen(self, heads: Tensor) -> Tensor:
        """[T, H, D] -> [T, H, KERNEL_HEAD_DIM], contiguous."""
        return F.pad(heads, (0, KERNEL_HEAD_DIM - self.head_dim)).contiguous()

    def rotate(self, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        # [1, T, n, D] with angles [1, T, 1, D]; "half": feature i is turned with feature i + D/2. In float32, as the
        # reference does it.
        rotated = torch.ops.npu.npu_rotary_mul(heads[None].float(), cos[None], sin[None], "half")
        return rotated[0].to(heads.dtype)


class NpuFusionAttention(NpuAttention):
    """``npu_fusion_attention``, layout TND; cumulative lengths on the host, without a leading 0."""

    name = "npu-fusion"

    def plan(self, lengths: Sequence[int], device: torch.device) -> list[int]:
        return list(accumulate(lengths))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, plan: list[int]) -> Tensor:
        attended = torch.ops.npu.npu_fusion_attention(
            self.widen(query),
            self.widen(key),
            self.widen(value),
            head_num=query.shape[1],
            input_layout="TND",
            scale=self.scale,
            actual_seq_qlen=plan,
            actual_seq_kvlen=plan,
        )[0]
        return attended[..., : self.head_dim].contiguous()


class NpuAtbAttention(NpuAttention):
    """``_npu_flash_attention_unpad``; the length of each image, int32 on the host: a tensor on the NPU breaks it."""

    name = "npu-atb"

    def plan(self, lengths: Sequence[int], device: torch.device) -> Tensor:
        return torch.tensor(lengths, dtype=torch.int32, device="cpu")

    def attend(self, query: Tensor, key: Tensor, value: Tensor, plan: Tensor) -> Tensor:
        query = self.widen(query)
        out = torch.empty_like(query)
        torch.ops.atb._npu_flash_attention_unpad(
            query=query,
            key=self.widen(key),
            value=self.widen(value),
            seq_len=plan,
            scale_value=self.scale,
            num_heads=query.shape[1],
            num_kv_heads=query.shape[1],
            out=out,
        )
        return out[..., : self.head_dim].contiguous()


class NpuAtb310PAttention(NpuAtbAttention):
    """The same on a 310P: float16 alone, and a whole number of tiles of rows. What is missing are zeros, an image of
    their own, so that lengths and rows agree whether the library rounds up or not; none of it is kept."""

    name = "npu-atb-310p"

    @classmethod
    def supports(cls, device: torch.device, dtype: torch.dtype) -> bool:
        return device.type == "npu" and dtype == torch.float16

    def plan(self, lengths: Sequence[int], device: torch.device) -> Tensor:
        missing = -sum(lengths) % TILE
        return super().plan([*lengths, missing] if missing else lengths, device)

    def widen(self, heads: Tensor) -> Tensor:
        return F.pad(super().widen(heads), (0, 0, 0, 0, 0, -len(heads) % TILE))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, plan: Tensor) -> Tensor:
        return super().attend(query, key, value, plan)[: len(query)]
