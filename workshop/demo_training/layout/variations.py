# SPDX-License-Identifier: Apache-2.0
"""What training changes in a page each time that it is seen, so that no page is learnt by heart."""

from __future__ import annotations

import numpy as np
from PIL import Image

from .network import INPUT
from .targets import Sample

INSIDE = 2.0  # px between a box and what is blanked of it: the margin of a neighbour's box may reach into this one


def varied(sample: Sample, rng: np.random.Generator) -> Sample:
    """The page with some of its blocks blanked, or smaller on its paper, or both, or as it is."""
    if rng.random() < 0.35:
        sample = thinned(sample, rng)
    if rng.random() < 0.35:
        sample = shrunk(sample, rng)
    return sample


def thinned(sample: Sample, rng: np.random.Generator) -> Sample:
    """Without some of the blocks: paper of the tone around them is in their place."""
    kept = rng.random(len(sample.boxes)) >= rng.uniform(0.1, 0.5)
    image = sample.image.copy()
    for left, top, right, bottom in sample.boxes[~kept]:
        rows = slice(int(np.ceil(top + INSIDE)), int(bottom - INSIDE) + 1)
        columns = slice(int(np.ceil(left + INSIDE)), int(right - INSIDE) + 1)
        part = image[rows, columns]
        if part.size:
            part[:] = np.percentile(part, 95)
    return Sample(image, sample.boxes[kept], sample.classes[kept])


def shrunk(sample: Sample, rng: np.random.Generator) -> Sample:
    """Smaller, by up to a quarter either way, on paper of the tone of the page's edge."""
    width, height = (round(INPUT * side) for side in rng.uniform(0.75, 1.0, 2))
    left, top = rng.integers(0, INPUT - width + 1), rng.integers(0, INPUT - height + 1)
    paper = np.median(np.concatenate([sample.image[0], sample.image[-1]]))
    image = np.full_like(sample.image, paper)
    small = Image.fromarray(sample.image).resize((width, height), Image.Resampling.BICUBIC)
    image[top : top + height, left : left + width] = np.asarray(small)
    scale = np.array([width, height] * 2, np.float32) / INPUT
    shift = np.array([left, top] * 2, np.float32)
    return Sample(image, (sample.boxes * scale + shift).astype(np.float32), sample.classes)


def vary(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Contrast, brightness and grain of a grey page: float32 0..1."""
    pixels = image.astype(np.float32) / 255
    pixels = 1 - (1 - pixels) * rng.uniform(0.75, 1.0)
    if rng.random() < 0.5:
        pixels *= rng.uniform(0.9, 1.0)
    if rng.random() < 0.3:
        pixels += rng.standard_normal(pixels.shape, np.float32) * rng.uniform(0.005, 0.03)
    return pixels.clip(0, 1)
