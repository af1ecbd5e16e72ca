# SPDX-License-Identifier: Apache-2.0
"""As many pixels of a picture of print as its print needs: margins cut off, lines made as high as asked for.

A vision tower's work grows with the pixels, and the bounds of PaddleOCR's client (112,896 to 1,003,520 pixels of a
crop) do not know the print: they enlarge a short line up to six times, and leave a paragraph that was scanned at 300
dpi as it is.
"""

from __future__ import annotations

import math

import numpy as np
from PIL import Image

INK = 60  # grey levels from the paper's, of what lines are measured by
FAINT = 24  # of what is not cut off
STRIPS = 12  # side by side, lines are measured in each: in a narrow one, lines that rise have white between them, too
NARROWEST = 24  # px of a strip
LOWEST = 6  # px: what is lower is no line
USUAL = 0.4  # quantile of lines' heights: what is taken for two lines is high, a strip of a line may lack ascenders
STROKES = 12  # widths of a stroke that a line is high at most: print has 4 to 9, and light faces more
MARGIN = 0.25  # of a line's height, that stays around the ink
TILE = 28  # px of a token's sides: 2 x 2 patches of 14
LEAST = 16 * TILE * TILE  # pixels that are left of the smallest picture
GAIN = 0.9  # of the pixels; a picture that keeps more of them stays as it is


def fitted(picture: np.ndarray, line: int, least: int, most: int) -> np.ndarray | None:
    """The picture with lines of print that are ``line`` pixels high, from ascenders to descenders.

    ``picture``: uint8 [height, width, 3]. The sides of what is returned are multiples of 28, so that the model's own
    preprocessing changes nothing of it. None where no line is found, and where it would not have fewer pixels than the
    model makes of the picture between the bounds ``least`` and ``most``.
    """
    height, width, _ = picture.shape
    image = Image.fromarray(picture)
    grey = np.asarray(image.convert("L"))
    apart = np.abs(grey.astype(np.int16) - int(np.median(grey)))
    found = line_height(apart > INK)
    if found is None:
        return None
    left, top, right, bottom = area = _with_ink(apart > FAINT, round(MARGIN * found))
    pixels = min(max(height * width, least), most)
    floor = math.sqrt(LEAST / ((right - left) * (bottom - top)))
    scale = min(max(line / found, floor), math.sqrt(pixels / (height * width)))
    print_width, print_height = (max(1, round(side * scale)) for side in (right - left, bottom - top))
    fit_width, fit_height = (math.ceil(side / TILE) * TILE for side in (print_width, print_height))
    if fit_width * fit_height > GAIN * pixels:
        return None
    paper = np.median(picture.reshape(-1, 3), axis=0).astype(np.uint8)
    sheet = np.full((fit_height, fit_width, 3), paper)
    x, y = (fit_width - print_width) // 2, (fit_height - print_height) // 2
    sheet[y : y + print_height, x : x + print_width] = np.asarray(
        image.resize((print_width, print_height), Image.Resampling.BICUBIC, box=area)
    )
    return sheet


def line_height(ink: np.ndarray) -> float | None:
    """Of the usual line, in pixels. ``ink``: bool [height, width].

    Where rules cross all strips, or lines touch, no white parts two lines. The strokes bound the height then.
    """
    width = max(NARROWEST, math.ceil(ink.shape[1] / STRIPS))
    strips = [np.any(ink[:, left : left + width], axis=1) for left in range(0, ink.shape[1], width)]
    heights = np.concatenate([_runs(rows) for rows in strips])
    lines = heights[heights >= LOWEST]
    if not len(lines):
        return None
    strokes = _runs(np.pad(ink, ((0, 0), (0, 1))).ravel())
    return min(float(np.quantile(lines, USUAL)), STROKES * float(np.median(strokes)))


def _runs(marks: np.ndarray) -> np.ndarray:
    """Lengths of the runs of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], marks, [False]))))
    return edges[1::2] - edges[::2]


def _with_ink(ink: np.ndarray, margin: int) -> tuple[int, int, int, int]:
    """Left, top, right, bottom of all ink, with a margin."""
    rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    height, width = ink.shape
    return (
        max(0, int(columns[0]) - margin),
        max(0, int(rows[0]) - margin),
        min(width, int(columns[-1]) + 1 + margin),
        min(height, int(rows[-1]) + 1 + margin),
    )
