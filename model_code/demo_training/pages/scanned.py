# SPDX-License-Identifier: Apache-2.0
"""Pages as a scanner hands them over: a little askew, a little blurred, on grey paper, JPEG-coded."""

from __future__ import annotations

import io
import random

import numpy as np
from PIL import Image, ImageFilter

MOST_DEGREES = 1.5
QUALITY = 60  # of the JPEG


def scan(page: Image.Image, seed: int) -> Image.Image:
    """``page`` (RGB) scanned, of the same size; the same seed gives the same picture."""
    rng = random.Random(seed)
    paper = rng.randint(205, 240)
    degrees = rng.uniform(-MOST_DEGREES, MOST_DEGREES)
    turned = page.convert("L").rotate(degrees, Image.Resampling.BICUBIC, fillcolor=255)
    blurred = turned.filter(ImageFilter.GaussianBlur(rng.uniform(0.3, 0.8)))
    grey = np.asarray(blurred, dtype=np.float32) / 255 * paper
    # The lamp is not equally bright everywhere, and the sensor has noise.
    light = np.linspace(1.0, rng.uniform(0.94, 1.0), page.width, dtype=np.float32)
    noise = np.random.default_rng(seed).normal(0.0, 3.0, grey.shape)
    coded = io.BytesIO()
    Image.fromarray(np.clip(grey * light + noise, 0, 255).astype(np.uint8)).save(coded, "JPEG", quality=QUALITY)
    return Image.open(coded).convert("RGB")
