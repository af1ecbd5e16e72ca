# SPDX-License-Identifier: Apache-2.0
"""Where patches and tokens are: the tower's two position embeddings and the language model's 3-D positions.

All of it depends on grid sizes only and is computed on the host; the tower keeps its part per grid.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .image_processing import merge_block_order


@dataclass(frozen=True)
class GridEmbedding:
    """Position embeddings of one image grid of n patches in merge-block order, on the tower's device."""

    learned: Tensor  # [n, hidden], the model's dtype
    cos: Tensor  # [n, 1, head_dim] float32
    sin: Tensor  # [n, 1, head_dim] float32


class GridEmbeddingCache:
    """The grids used last, up to a number of patches in all, so that its memory has a bound."""

    def __init__(self, merge: int, head_dim: int, theta: float, max_patches: int = 1 << 16) -> None:
        self.merge, self.head_dim, self.theta, self.max_patches = merge, head_dim, theta, max_patches
        self._grids: OrderedDict[tuple[int, int], GridEmbedding] = OrderedDict()
        self._patches = 0

    def get(self, rows: int, columns: int, table: Tensor) -> GridEmbedding:
        """Embedding of a grid; ``table`` is the learned square grid [side * side, hidden], the same at each call."""
        key = (rows, columns)
        if key in self._grids:
            self._grids.move_to_end(key)
            return self._grids[key]
        order = merge_block_order(rows, columns, self.merge)
        turns = torch.stack(rotary_2d(rows, columns, self.head_dim, self.theta))
        # Together: each copy to a device waits for it.
        cos, sin = turns[:, order, None].to(table.device)
        made = GridEmbedding(interpolate(table, rows, columns, order), cos, sin)
        self._grids[key] = made
        self._patches += rows * columns
        while self._patches > self.max_patches and len(self._grids) > 1:
            (old_rows, old_columns), _ = self._grids.popitem(last=False)
            self._patches -= old_rows * old_columns
        return made


def interpolate(table: Tensor, rows: int, columns: int, order: np.ndarray) -> Tensor:
    """Bilinear resampling of a learned square grid, pixel centres aligned (``align_corners=False``).

    As four gathers and a weighted sum in float32, which every device does exactly alike.

    Args:
        table: [side * side, hidden].
        order: [rows * columns], the row-major patch that each output row holds.

    Returns:
        [rows * columns, hidden] in the dtype of ``table``.
    """
    side = round(table.shape[0] ** 0.5)
    row_index, row_weight = linear_taps(rows, side)
    column_index, column_weight = linear_taps(columns, side)
    y, x = order // columns, order % columns
    corners = [(i, j) for i in range(2) for j in range(2)]
    places = np.stack([row_index[i][y] * side + column_index[j][x] for i, j in corners])
    weights = np.stack([row_weight[i][y] * column_weight[j][x] for i, j in corners])
    result = torch.zeros(len(order), table.shape[1], dtype=torch.float32, device=table.device)
    # Two copies for all four, since each waits for the device.
    for index, weight in zip(*(torch.from_numpy(x).to(table.device) for x in (places, weights)), strict=True):
        result += table[index].float() * weight[:, None]
    return result.to(table.dtype)


def linear_taps(size: int, source: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Two source indices (int64) and two weights (float32) for each of ``size`` places over ``source`` samples."""
    place = np.maximum((np.arange(size, dtype=np.float32) + 0.5) * np.float32(source / size) - 0.5, 0).astype(
        np.float32
    )
    low = np.minimum(place.astype(np.int64), source - 1)
    high = np.minimum(low + 1, source - 1)
    fraction = (place - low).astype(np.float32)
    return (low, high), (1 - fraction, fraction)


def rotary_2d(rows: int, columns: int, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """cos and sin [rows * columns, head_dim] float32 of the axial rotary embedding, patches row-major.

    A quarter of the head's features turns with the row, the next with the column, and the second half
    of the head repeats the first (rotary embedding in half-split form, RoFormer, arXiv 2104.09864).
    """
    frequency = 1.0 / theta ** (torch.arange(0, head_dim // 2, 2, dtype=torch.float32) / (head_dim // 2))
    row = torch.arange(rows, dtype=torch.float32).repeat_interleave(columns)
    column = torch.arange(columns, dtype=torch.float32).repeat(rows)
    angle = torch.cat((row[:, None] * frequency, column[:, None] * frequency), dim=-1)
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos(), angle.sin()


@dataclass(frozen=True)
class ImageSpan:
    """Where an image's tokens lie in a prompt: rows x columns merged blocks from ``offset`` on."""

    offset: int
    rows: int
    columns: int


def mrope_positions(length: int, images: Sequence[ImageSpan]) -> tuple[Tensor, int]:
    """Temporal, vertical and horizontal position of each of a prompt's ``length`` tokens.

    Text counts up in all three. An image stands at one moment, its rows and columns count from there,
    and what follows goes on after the larger of the two (Qwen2-VL, arXiv 2409.12191).

    Returns:
        [3, length] int64, and what must be added to a later token's index to get its position.
    """
    positions = np.empty((3, length), dtype=np.int64)
    done, position = 0, 0
    for image in sorted(images, key=lambda span: span.offset):
        text = image.offset - done
        positions[:, done : image.offset] = np.arange(position, position + text)
        position += text
        end = image.offset + image.rows * image.columns
        positions[0, image.offset : end] = position
        positions[1, image.offset : end] = position + np.repeat(np.arange(image.rows), image.columns)
        positions[2, image.offset : end] = position + np.tile(np.arange(image.columns), image.rows)
        position += max(image.rows, image.columns)
        done = end
    positions[:, done:] = np.arange(position, position + length - done)
    return torch.from_numpy(positions), position - done
