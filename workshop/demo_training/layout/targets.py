# SPDX-License-Identifier: Apache-2.0
"""From drawn pages to training targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..pages.documents import draw_page
from ..pages.labels import DRAWN
from ..pages.page import Page
from ..pages.scanned import scan_page
from .network import INPUT, STRIDE

#: Page px between the ink of a block and its box: crops must not cut glyphs, nor reach the next line.
MARGIN = 4
SCANNED = 8


@dataclass
class Sample:
    """``image`` [800, 800] uint8 grey; ``boxes`` [K, 4] in px of it; ``classes`` [K] indices into DRAWN."""

    image: np.ndarray
    boxes: np.ndarray
    classes: np.ndarray


def shrink(page: Image.Image) -> np.ndarray:
    """An RGB page as grey [800, 800] uint8, resized as PaddleX does (cubic, not antialiased, aspect not kept)."""
    grey = torch.from_numpy(np.array(page, dtype=np.float32)).mean(2)[None, None]
    small = torch.nn.functional.interpolate(grey, (INPUT, INPUT), mode="bicubic", align_corners=False)
    return small[0, 0].round().clamp(0, 255).to(torch.uint8).numpy()


def draw_sample(seed: int, split: str) -> Sample:
    return sample_of(draw_page(seed, split), seed)


def sample_of(page: Page, seed: int) -> Sample:
    """What the network is to find on ``page``; one page in ``SCANNED`` comes from a scanner."""
    if seed % SCANNED == SCANNED - 1:
        page = scan_page(page, seed)
    width, height = page.image.size
    scale = np.array([INPUT / width, INPUT / height] * 2, np.float32)
    boxes = np.array([block.bbox for block in page.blocks], np.float32).reshape(-1, 4)
    boxes = (boxes + np.array([-MARGIN, -MARGIN, MARGIN, MARGIN], np.float32)) * scale
    classes = np.array([DRAWN.index(block.label) for block in page.blocks], np.int64)
    return Sample(shrink(page.image), boxes.clip(0, INPUT), classes)


class SampleCache:
    """Makes each sample once, by ``make(number)``, and keeps it in files under ``folder``: pages cost more than
    reading."""

    def __init__(self, folder: Path, make: Callable[[int], Sample]):
        self.folder, self._make = folder, make
        self.folder.mkdir(parents=True, exist_ok=True)

    def __getitem__(self, seed: int) -> Sample:
        path = self.folder / f"{seed:06d}.npz"
        if path.exists():
            with np.load(path) as stored:
                return Sample(stored["image"], stored["boxes"], stored["classes"])
        sample = self._make(seed)
        partial = path.with_suffix(".part.npz")
        np.savez(partial, image=sample.image, boxes=sample.boxes, classes=sample.classes)
        partial.rename(path)
        return sample


def heat_targets(boxes: np.ndarray, classes: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    """Heat [classes, 200, 200], log distances [4, 200, 200] and their mask [200, 200].

    Heat is a Gaussian at each centre, in proportion to the box; distances hold in the middle of the box.
    """
    cells = INPUT // STRIDE
    centres = (np.arange(cells, dtype=np.float32) + 0.5) * STRIDE
    heat = np.zeros((len(DRAWN), cells, cells), np.float32)
    distances = np.zeros((4, cells, cells), np.float32)
    mask = np.zeros((cells, cells), np.float32)
    # Small boxes last: where two overlap, the smaller one owns the cells.
    for index in np.argsort(-(boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])):
        x1, y1, x2, y2 = boxes[index]
        x, y, width, height = (x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1
        dx, dy = centres - x, centres - y
        sx, sy = max(0.08 * width, 4.0), max(0.08 * height, 4.0)
        bell = np.exp(-0.5 * (dy[:, None] / sy) ** 2 - 0.5 * (dx[None, :] / sx) ** 2)
        row, column = int(min(y // STRIDE, cells - 1)), int(min(x // STRIDE, cells - 1))
        bell[row, column] = 1.0
        kind = classes[index]
        np.maximum(heat[kind], bell, out=heat[kind])
        near_x = np.abs(dx) <= max(0.15 * width, 0.75 * STRIDE)
        near_y = np.abs(dy) <= max(0.15 * height, 0.75 * STRIDE)
        near = near_y[:, None] & near_x[None, :]
        sides = [centres[None, :] - x1, centres[:, None] - y1, x2 - centres[None, :], y2 - centres[:, None]]
        for side, values in enumerate(sides):
            values = np.log(np.maximum(np.broadcast_to(values, near.shape), 1.0) / STRIDE)
            distances[side][near] = values[near]
        mask[near] = 1.0
    return torch.from_numpy(heat), torch.from_numpy(distances), torch.from_numpy(mask)
