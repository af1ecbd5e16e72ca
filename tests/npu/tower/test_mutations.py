# SPDX-License-Identifier: Apache-2.0
"""The comparison finds each likely mistake in the NPU backends; the tests make them on purpose."""

from __future__ import annotations

import pytest
import torch

from tests.npu import agreement
from tests.npu.mistakes import with_mistake
from vlm_models.paddleocr_vl.attention import npu

# what, backend, text in attention/npu.py, what it becomes
MISTAKES = [
    ("leading zero", "NpuFusionAttention", "return list(accumulate(lengths))", "return [0, *accumulate(lengths)]"),
    ("lengths, not their sums", "NpuFusionAttention", "return list(accumulate(lengths))", "return list(lengths)"),
    ("all images as one", "NpuFusionAttention", "return list(accumulate(lengths))", "return [sum(lengths)]"),
    ("another layout", "NpuFusionAttention", 'input_layout="TND"', 'input_layout="BSND"'),
    ("heads and patches exchanged", "NpuFusionAttention", "self.widen(query),", "self.widen(query.transpose(0, 1)),"),
    ("no scale", "NpuFusionAttention", "            scale=self.scale,\n", ""),
    ("scale of the widened head", "NpuFusionAttention", "scale=self.scale", "scale=KERNEL_HEAD_DIM**-0.5"),
    ("value for key", "NpuFusionAttention", "            self.widen(key),\n", "            self.widen(value),\n"),
    (
        "the filling for the features",
        "NpuFusionAttention",
        "attended[..., : self.head_dim]",
        "attended[..., -self.head_dim :]",
    ),
    (
        "filled at the front",
        "NpuFusionAttention",
        "(0, KERNEL_HEAD_DIM - self.head_dim)",
        "(KERNEL_HEAD_DIM - self.head_dim, 0)",
    ),
    ("sums, not lengths", "NpuAtbAttention", "torch.tensor(lengths,", "torch.tensor(list(accumulate(lengths)),"),
    ("64-bit lengths", "NpuAtbAttention", "dtype=torch.int32", "dtype=torch.int64"),
    ("lengths on the device", "NpuAtbAttention", 'device="cpu"', 'device="meta"'),
    ("no scale (ATB)", "NpuAtbAttention", "scale_value=self.scale", "scale_value=1.0"),
    (
        "output not looked at",
        "NpuAtbAttention",
        "return out[..., : self.head_dim]",
        "return query[..., : self.head_dim]",
    ),
    ("interleaved rotation", "NpuFusionAttention", '"half")', '"interleave")'),
    (
        "interleaved angles",
        "NpuFusionAttention",
        "cos[None], sin[None]",
        "cos[None, ..., :36].repeat_interleave(2, -1), sin[None, ..., :36].repeat_interleave(2, -1)",
    ),
    ("sine and cosine exchanged", "NpuFusionAttention", "cos[None], sin[None]", "sin[None], cos[None]"),
    ("turned backwards", "NpuFusionAttention", "cos[None], sin[None]", "cos[None], -sin[None]"),
    (
        "patches for heads in rotation",
        "NpuFusionAttention",
        "heads[None].float(), cos[None], sin[None]",
        "heads[:, None].float(), cos[:, None], sin[:, None]",
    ),
]


@pytest.mark.parametrize(("backend", "old", "new"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_a_mistake_is_found(cpu_kernels, backend, old, new):
    broken = getattr(with_mistake(npu, old, new), backend)(agreement.HEAD_DIM)
    with pytest.raises((AssertionError, ValueError, RuntimeError, NotImplementedError)):
        agreement.check(broken, torch.float32)


@pytest.mark.parametrize("backend", ["NpuFusionAttention", "NpuAtbAttention"])
def test_without_a_mistake_nothing_is_found(cpu_kernels, backend):
    unchanged = getattr(with_mistake(npu, "Ascend NPUs", "Ascend NPUs"), backend)(agreement.HEAD_DIM)
    agreement.check(unchanged, torch.float32)
