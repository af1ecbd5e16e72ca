# SPDX-License-Identifier: Apache-2.0
"""Images for tests of models, drawn from a seed."""

from __future__ import annotations

import numpy as np


def drawn(seed: int, height: int, width: int) -> np.ndarray:
    """Strokes on paper, uint8 (height, width, 3): smooth and sharp parts, every seed another image."""
    random = np.random.default_rng(seed)
    image = np.full((height, width, 3), 255, np.uint8)
    for _ in range(max(3, height * width // 2000)):
        y, x = random.integers(0, height), random.integers(0, width)
        image[y : y + random.integers(1, 12), x : x + random.integers(1, 30)] = random.integers(0, 256, 3)
    return image
