# SPDX-License-Identifier: Apache-2.0
"""Lists of dies and cores, as people, npu-smi and Ascend Docker Runtime write them: `0,2,5-7`."""

from __future__ import annotations

import re

PART = re.compile(r"(\d+)(?:-(\d+))?")


def numbers(text: str) -> list[int]:
    """`0-3,8` as [0, 1, 2, 3, 8], in the order of the text. Raises ValueError."""
    found: list[int] = []
    for part in text.split(","):
        match = PART.fullmatch(part)
        if not match:
            raise ValueError(f"{part!r} is no number and no range")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return found
