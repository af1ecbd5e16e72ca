# SPDX-License-Identifier: Apache-2.0
"""What mistakes are made of: texts in vllm-ascend's layers, and what they become."""

from __future__ import annotations

from tests.npu.vllm_ascend.conftest import NEW

# Rotation of positions with gaps, and the norm of a sum: text of each stack, what it becomes.
if NEW:
    GAPS, QUOTE = ("            positions.contiguous(),", "            positions,"), '"'
    ADDED = [
        ("self.bias, self.variance_epsilon", "self.bias, 0.5"),
        ("x, residual, self.weight, self.bias", "x, x, self.weight, self.bias"),
    ]
else:
    GAPS, QUOTE = ("npu_mrope(positions.contiguous(),", "npu_mrope(positions,"), "'"
    same = "x, residual, self.weight, self.variance_epsilon)"
    ADDED = [(same, same.replace("self.variance_epsilon", "0.5")), (same, same.replace("residual", "x"))]
