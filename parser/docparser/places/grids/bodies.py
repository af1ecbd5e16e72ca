# SPDX-License-Identifier: Apache-2.0
"""Lines of print as runs of rows with ink, between rows that have none. Where descenders touch the ascenders below, the
rows with least ink part two lines."""

from __future__ import annotations

import numpy as np

INKED = 60  # grey levels from the paper's
NOISE = 0.001  # of a row's pixels
TOUCHING = 0.2  # of the ink of a body's rows: where there is less, two lines touch
LETTERS = 8  # px; what is lower is no line of letters

Body = tuple[int, int]  # first row with ink, and the row after the last


def bodies_in(ink: np.ndarray, noise: int) -> list[Body]:
    """Lines from top to bottom."""
    inked = runs(ink > noise)
    parted = [part for run in inked for part in _parted(ink, run)]
    if not parted:
        return []
    usual = float(np.median([last - first for first, last in parted]))
    lines: list[Body] = []
    for first, last in parted:
        # Dots and accents above their letters, underlines below.
        low = last - first < 0.4 * usual or (bool(lines) and lines[-1][1] - lines[-1][0] < 0.4 * usual)
        if lines and low and first - lines[-1][1] < 0.35 * usual:
            lines[-1] = (lines[-1][0], last)
        else:
            lines.append((first, last))
    return [line for line in lines if line[1] - line[0] >= LETTERS] or lines


def _parted(ink: np.ndarray, run: Body) -> list[Body]:
    """The lines of a run of inked rows: several, if they touch."""
    first, last = run
    rows = ink[first:last]
    parts = [(first + top, first + end) for top, end in runs(rows > TOUCHING * rows.mean())]
    heights = [end - top for top, end in parts]
    if len(parts) < 2 or min(heights) < LETTERS / 2 or min(heights) < 0.5 * max(heights):
        return [run]
    cuts = [first, *(between(ink, above, below) for above, below in zip(parts, parts[1:])), last]
    return list(zip(cuts, cuts[1:]))


def runs(inked: np.ndarray) -> list[Body]:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], inked.astype(np.int8), [0]))))
    return [(int(first), int(last)) for first, last in zip(edges[::2], edges[1::2])]


def between(ink: np.ndarray, above: Body, below: Body) -> int:
    """The middle of the rows with least ink between two lines."""
    first, last = above[1] - 1, below[0] + 1
    rows = ink[first:last]
    least = np.flatnonzero(rows == rows.min())
    return first + int(least[len(least) // 2])
