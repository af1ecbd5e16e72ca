# SPDX-License-Identifier: Apache-2.0
"""The variable-length flash attention that vLLM ships for CUDA."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from .base import RotationFirst


@dataclass(frozen=True)
class FlashPlan:
    bounds: Tensor  # cumulative lengths with a leading 0, int32 on the device
    longest: int


class FlashAttention(RotationFirst):
    """One launch for all images of a pass; interface of ``vllm.vllm_flash_attn.flash_attn_varlen_func``."""

    name = "flash"

    @classmethod
    def supports(cls, device: torch.device, dtype: torch.dtype) -> bool:
        # The kernels take 16-bit floats, and start with compute capability 8.
        return (
            device.type == "cuda"
            and dtype in (torch.float16, torch.bfloat16)
            and importlib.util.find_spec("vllm.vllm_flash_attn._vllm_fa2_C") is not None
            and torch.cuda.get_device_capability(device)[0] >= 8
        )

    @cached_property
    def kernel(self) -> Any:
        # Builds of vLLM for other hardware lack it.
        return importlib.import_module("vllm.vllm_flash_attn").flash_attn_varlen_func

    def plan(self, lengths: Sequence[int], device: torch.device) -> FlashPlan:
        bounds = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)
        return FlashPlan(bounds.to(device, non_blocking=True), max(lengths))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, plan: FlashPlan) -> Tensor:
        # Version 2 of the kernels: version 3 takes no head of 72 features.
        return self.kernel(
            query,
            key,
            value,
            cu_seqlens_q=plan.bounds,
            cu_seqlens_k=plan.bounds,
            max_seqlen_q=plan.longest,
            max_seqlen_k=plan.longest,
            softmax_scale=self.scale,
            causal=False,
            fa_version=2,
        )
