# SPDX-License-Identifier: Apache-2.0
"""Images for tests of models and servers: drawn from a seed, and a line of text."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw


def drawn(seed: int, height: int, width: int) -> np.ndarray:
    """Strokes on paper, uint8 (height, width, 3): smooth and sharp parts, every seed another image."""
    random = np.random.default_rng(seed)
    image = np.full((height, width, 3), 255, np.uint8)
    for _ in range(max(3, height * width // 2000)):
        y, x = random.integers(0, height), random.integers(0, width)
        image[y : y + random.integers(1, 12), x : x + random.integers(1, 30)] = random.integers(0, 256, 3)
    return image


def page(width: int = 300, height: int = 60, mode: str = "RGB") -> Image.Image:
    """A line of text."""
    image = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(image).text((8, height // 3), "Hello 42", fill="black")
    return image.convert(mode)
