# SPDX-License-Identifier: Apache-2.0
"""The shapes of PaddleOCR-VL-0.9B that the operators are tried with, and inputs for them.

All inputs are drawn on the host with a fixed seed and rounded to what the model computes with, so that every die and
the reference get the same bits.
"""

from __future__ import annotations

import os
from itertools import accumulate

import torch
from torch import Tensor

import atlas
from vlm_models.paddleocr_vl.passes import MOST_IMAGES

PRODUCT = atlas.of_soc(os.environ.get("SOC_VERSION") or atlas.DEFAULT.soc)
DTYPE: torch.dtype = getattr(torch, PRODUCT.dtype)
# The language model (ERNIE-4.5).
HIDDEN, INTERMEDIATE = 1024, 3072
HEADS, KEY_HEADS, HEAD_DIM, SECTIONS, EPSILON = 16, 2, 128, (16, 24, 24), 1e-5
# The vision tower.
VISION_HIDDEN, VISION_HEADS, VISION_HEAD_DIM, PATCH = 1152, 16, 72, 14
# Tokens of a prompt.
TOKENS = 7
# Pass of the tower -> patches of its images. How a kernel cuts its work follows from the sizes, so they are those that
# are served: the largest page that is accepted, crops of a page together, and as many images as a pass takes at most.
FEW, PAGE, CROPS, MANY = "a few images", "a page", "crops of a page", "many images"
PASSES: dict[str, tuple[int, ...]] = {
    FEW: (12, 4, 40, 4),
    PAGE: (14400,),
    CROPS: (576, 1024, 748, 4096, 60, 2304, 996, 576),
    MANY: (4, 16, 8, 12) * (MOST_IMAGES // 4),
}
# Rows of a pass that are compared where all would take the host minutes; scores in double precision that take a second.
ROWS, SCORES = 97, 1 << 22
# Tokens in one block of the cache, and two sequences over it: tokens that are new, in two steps, and all.
BLOCK, NEW, ONE_EACH, CONTEXTS = 128, (5, 1), (1, 1), (133, 40)
BLOCK_TABLE = ((2, 0), (3, 1))
# Prompts of which nothing is in the cache yet: neither is a whole number of tiles.
PROMPTS = (37, 150)
# Where the second sequence's first block is written: not in order, as the scheduler gives them out.
SLOTS = (17, 3, 0, 31, 16, 8, 9)


def tower(images: str, backend: str = "npu-fusion") -> str:
    """What the attention of the tower is called, over a pass of PASSES by one of our backends."""
    return f"tower attention, {images}" + (", ATB" if backend.startswith("npu-atb") else "")


def drawn(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    """Normal values of DTYPE."""
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale).to(DTYPE)


def angles(rows: int, width: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines [rows, width], float32."""
    angle = torch.rand(rows, width, generator=torch.Generator().manual_seed(0)) * 6
    return angle.cos(), angle.sin()


def caches() -> tuple[Tensor, Tensor]:
    """Keys and values, each [blocks, BLOCK, KEY_HEADS, HEAD_DIM]."""
    return drawn(4, BLOCK, KEY_HEADS, HEAD_DIM, seed=1), drawn(4, BLOCK, KEY_HEADS, HEAD_DIM, seed=2)


def ends(lengths: tuple[int, ...]) -> list[int]:
    """Cumulative lengths without a leading 0."""
    return list(accumulate(lengths))


def compared(sizes: tuple[int, ...]) -> Tensor:
    """The rows of a pass that are compared: all of a small one, else some from the first to the last, at every distance
    from a kernel's borders."""
    patches = sum(sizes)
    if sum(size * size for size in sizes) <= SCORES:
        return torch.arange(patches)
    return torch.linspace(0, patches - 1, ROWS).long()
