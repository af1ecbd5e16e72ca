# SPDX-License-Identifier: Apache-2.0
"""What scanning and saving do to a clean page."""

from __future__ import annotations

import io
import random
from functools import lru_cache

import numpy as np
from PIL import Image, ImageFilter


@lru_cache(maxsize=1)
def _grain() -> np.ndarray:
    return np.random.default_rng(7).standard_normal((1024, 1024), dtype=np.float32)


def age(image: Image.Image, rng: random.Random) -> Image.Image:
    """Light wear: uneven light, grain, blur or JPEG loss; often none. RGB in, RGB out, nothing moves."""
    if rng.random() < 0.12:
        image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0.3, 0.8)))
    sigma = rng.choice([0.0, 0.0, rng.uniform(0.5, 5.0)])
    slope = rng.choice([0.0, 0.0, 0.0, rng.uniform(-14.0, 14.0)])
    if sigma or slope:
        pixels = np.asarray(image).astype(np.float32)
        height, width = pixels.shape[:2]
        if sigma:
            grain = np.roll(_grain(), (rng.randrange(1024), rng.randrange(1024)), (0, 1))
            repeats = (-(-height // 1024), -(-width // 1024))
            pixels += sigma * np.tile(grain, repeats)[:height, :width, None]
        if slope:
            pixels -= abs(slope) / 2
            pixels += slope * (np.linspace(-0.5, 0.5, width, dtype=np.float32)[None, :, None])
        image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    if rng.random() < 0.3:
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=rng.randint(60, 95))
        image = Image.open(buffer).convert("RGB")
    return image
