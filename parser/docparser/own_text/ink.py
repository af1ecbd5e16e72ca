# SPDX-License-Identifier: Apache-2.0
"""Where a page has ink, and what is seen in the boxes of its characters."""

from __future__ import annotations

import cv2
import numpy as np

from docparser.own_text.characters import Characters
from docparser.own_text.shapes import ZONES

SAME_GROUND = 8  # levels of grey
AROUND, FURTHER = 1, 5  # pixels about a run of characters that have its ground; that are looked at for it


class Ink:
    """``levels``: uint8 ``[height, width]``, how far each pixel is from the ground about it, in levels of grey."""

    def __init__(self, pixels: np.ndarray, characters: Characters) -> None:
        grey = cv2.cvtColor(pixels, cv2.COLOR_BGR2GRAY)
        self._grey, self._ground = grey, _usual(grey[::3, ::3])
        ground = self._ground
        self.levels = cv2.absdiff(grey, np.full_like(grey, ground)) if 0 < ground < 255 else _from_end(grey, ground)
        for left, top, right, bottom in _runs(characters, grey.shape):
            part = grey[top:bottom, left:right]
            here = _usual(grey[max(0, top - FURTHER) : bottom + FURTHER, max(0, left - FURTHER) : right + FURTHER])
            if abs(here - ground) > SAME_GROUND:
                self.levels[top:bottom, left:right] = np.abs(part.astype(np.int16) - here)
        self._sums = cv2.integral(self.levels)

    def sums(self, xs: np.ndarray, ys: np.ndarray) -> np.ndarray:
        """``[n, x, y]``: all ink left of ``xs`` (``[n, x]``) and above ``ys`` (``[n, y]``), in pixels from the upper
        left corner; a pixel that an edge cuts counts in part."""
        height, width = self.levels.shape
        xs, ys = np.clip(xs, 0, width).astype(np.float32), np.clip(ys, 0, height).astype(np.float32)
        left, above = np.minimum(xs.astype(np.int32), width - 1), np.minimum(ys.astype(np.int32), height - 1)
        across, down = (xs - left)[:, :, None], (ys - above)[:, None, :]
        at = above[:, None, :] * (width + 1) + left[:, :, None]
        flat = self._sums.reshape(-1)
        upper = flat[at] * (1 - across) + flat[at + 1] * across
        lower = flat[at + width + 1] * (1 - across) + flat[at + width + 2] * across
        return upper * (1 - down) + lower * down

    def part(self, box: tuple[float, float, float, float]) -> tuple[np.ndarray, tuple[int, int]]:
        """``levels`` in ``box``, against its own ground where this is not the page's, and its upper left corner."""
        height, width = self.levels.shape
        left, top = max(0, int(box[0])), max(0, int(box[1]))
        right, bottom = min(width, int(np.ceil(box[2]))), min(height, int(np.ceil(box[3])))
        if right <= left or bottom <= top:
            return np.empty((0, 0), np.uint8), (left, top)
        grey = self._grey[top:bottom, left:right]
        ground = _usual(grey)
        if abs(ground - self._ground) > SAME_GROUND:
            return np.abs(grey.astype(np.int16) - ground).astype(np.uint8), (left, top)
        return self.levels[top:bottom, left:right], (left, top)

    def zones(self, boxes: np.ndarray) -> np.ndarray:
        """``[boxes, ZONES * ZONES]``: the mean ink of each part of each box (``[boxes, 4]``), by rows."""
        steps = np.linspace(0, 1, ZONES + 1, dtype=np.float32)
        sizes = np.maximum(boxes[:, 2:] - boxes[:, :2], 1e-3)
        sums = self.sums(boxes[:, :1] + steps * sizes[:, :1], boxes[:, 1:2] + steps * sizes[:, 1:])
        parts = np.diff(np.diff(sums, axis=1), axis=2).transpose(0, 2, 1).reshape(len(boxes), -1)
        return np.maximum(parts, 0) / (sizes.prod(1)[:, None] / ZONES**2)


def _usual(grey: np.ndarray) -> int:
    """The commonest level: that of the ground, where print covers less than half."""
    return int(cv2.calcHist([np.ascontiguousarray(grey)], [0], None, [256], [0, 256]).argmax())


def _from_end(grey: np.ndarray, ground: int) -> np.ndarray:
    return cv2.bitwise_not(grey) if ground == 255 else grey


def _runs(characters: Characters, shape: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    """The boxes of runs, in whole pixels of the page."""
    each, height, width = characters.each, shape[0], shape[1]
    begins = characters.runs()
    if not len(begins):
        return []
    lows = np.minimum.reduceat(each["box"][:, :2], begins) - AROUND
    highs = np.maximum.reduceat(each["box"][:, 2:], begins) + AROUND
    limits = np.array([width, height])
    lows = np.clip(np.floor(lows), 0, limits).astype(int)
    highs = np.clip(np.ceil(highs), 0, limits).astype(int)
    inside = (highs - lows > 1).all(1)
    return list(zip(*np.concatenate([lows, highs], 1)[inside].T.tolist(), strict=True)) if inside.any() else []
