# SPDX-License-Identifier: Apache-2.0
"""Pages as a scanner hands them over: a little askew, a little blurred, on grey paper, JPEG-coded."""

from __future__ import annotations

import dataclasses
import io
import math
import random

import numpy as np
from PIL import Image, ImageFilter

from .page import Box, Page

MOST_DEGREES = 1.5
QUALITY = 60  # of the JPEG


def scan_page(page: Page, seed: int) -> Page:
    """``page`` scanned, with the boxes that its blocks have now."""
    degrees = _paper_and_degrees(random.Random(seed))[1]
    size = page.image.size
    blocks = [dataclasses.replace(block, bbox=_turned(block.bbox, degrees, size)) for block in page.blocks]
    return Page(scan(page.image, seed), blocks)


def _paper_and_degrees(rng: random.Random) -> tuple[int, float]:
    return rng.randint(205, 240), rng.uniform(-MOST_DEGREES, MOST_DEGREES)


def _turned(box: Box, degrees: float, size: tuple[int, int]) -> Box:
    """The upright box around ``box``, turned against the clock about the middle of a page of ``size``."""
    width, height = size
    sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    corners = [(x - width / 2, y - height / 2) for x in box[0::2] for y in box[1::2]]
    across = [width / 2 + x * cosine + y * sine for x, y in corners]
    down = [height / 2 - x * sine + y * cosine for x, y in corners]
    left, top = max(0, math.floor(min(across))), max(0, math.floor(min(down)))
    return left, top, min(width, math.ceil(max(across))), min(height, math.ceil(max(down)))


def scan(page: Image.Image, seed: int) -> Image.Image:
    """``page`` (RGB) scanned, of the same size; the same seed gives the same picture."""
    rng = random.Random(seed)
    paper, degrees = _paper_and_degrees(rng)
    turned = page.convert("L").rotate(degrees, Image.Resampling.BICUBIC, fillcolor=255)
    blurred = turned.filter(ImageFilter.GaussianBlur(rng.uniform(0.3, 0.8)))
    grey = np.asarray(blurred, dtype=np.float32) / 255 * paper
    # The lamp is not equally bright everywhere, and the sensor has noise.
    light = np.linspace(1.0, rng.uniform(0.94, 1.0), page.width, dtype=np.float32)
    noise = np.random.default_rng(seed).normal(0.0, 3.0, grey.shape)
    coded = io.BytesIO()
    Image.fromarray(np.clip(grey * light + noise, 0, 255).astype(np.uint8)).save(coded, "JPEG", quality=QUALITY)
    return Image.open(coded).convert("RGB")
