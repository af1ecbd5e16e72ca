# SPDX-License-Identifier: Apache-2.0
"""The rules of a table's picture, and the papers of its rows: a row may be shaded, or dark with white letters.

The paper of a row of pixels is the grey that most of them have, or nearly: print has many greys. A rule is a run of
pixels that differ from the paper and is longer than letters are.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from docparser.places.grids.bodies import Body, runs

FAINT = 16  # grey levels from the paper's: of a light grey rule
GREYS = 8  # levels that are told apart in looking for the paper
SHADE = 6  # grey levels between the papers of two rows
LEAST_PAPER = 8  # px; what is lower between two papers is a rule or an edge
LONG = 6.0  # lines of print: no letters touch each other for so long
TALL = 1.3  # lines of print: no letter is so tall
THICK = 0.6  # lines of print: a thicker rule is a shaded field
ACROSS = 0.4  # of the width, that a rule between two rows covers at least
DOWN = 0.3  # of the height, that a rule between two columns covers at least


@dataclasses.dataclass(frozen=True)
class Rules:
    """``rows``: of rules and edges of papers across the table, and ``columns`` of rules down it: first px and the px
    after the last, in order. ``contrast``: uint8 [height, width], grey levels from the paper of the row. ``across``,
    ``down``: bool [height, width], pixels of rules."""

    rows: list[Body]
    columns: list[Body]
    contrast: np.ndarray
    across: np.ndarray
    down: np.ndarray

    @property
    def pixels(self) -> np.ndarray:
        """Pixels of rules and their rims: bool [height, width]."""
        return _wider(_wider(self.across | self.down, 0), 1)


def find(image: np.ndarray, line: float | None) -> Rules:
    """``image``: grey, uint8 [height, width]. ``line``: px of a line's ink; None where it is not known yet, and only
    rules of half the table's size are found."""
    height, width = image.shape
    level, edges = _papers(image)
    contrast = np.abs(image.astype(np.int16) - level[:, None]).astype(np.uint8)
    faint = contrast > FAINT
    long = round(max(LONG * line, 0.2 * width)) if line else width // 2
    tall = round(TALL * line) if line else height // 2
    across = _in_runs(_wider(faint, 0), long) & faint
    down = _in_runs(_wider(faint, 1).T, tall).T & faint
    thick = max(4.0, THICK * line) if line else 12.0
    rows = _rules(across.any(axis=1) & (across.sum(axis=1) > 0.5 * ACROSS * width), thick)
    rows = [row for row in rows if across[row[0] : row[1]].any(axis=0).mean() >= ACROSS]
    columns = _rules(down.sum(axis=0) > 0.5 * DOWN * height, thick)
    columns = [column for column in columns if down[:, column[0] : column[1]].any(axis=1).mean() >= DOWN]
    beside = [edge for edge in edges if all(edge[1] < first - 2 or edge[0] > last + 2 for first, last in rows)]
    return Rules(sorted(rows + beside), columns, contrast, across, down)


def _papers(image: np.ndarray) -> tuple[np.ndarray, list[Body]]:
    """The grey level of each row's paper, int16 [height], and the rows where one paper ends and another begins."""
    level = _usual(image)
    cuts = [0, *(np.flatnonzero(np.abs(np.diff(level)) > SHADE) + 1).tolist(), len(level)]
    papers = [(first, last) for first, last in zip(cuts, cuts[1:]) if last - first >= LEAST_PAPER]
    if not papers:
        return np.full_like(level, int(np.median(level))), []
    edges = []
    filled = level.copy()
    filled[: papers[0][0]] = level[papers[0][0]]
    filled[papers[-1][1] :] = level[papers[-1][1] - 1]
    for (_, end), (first, _) in zip(papers, papers[1:]):
        middle = (end + first) // 2
        filled[end:middle], filled[middle:first] = level[end - 1], level[first]
        if abs(int(level[end - 1]) - int(level[first])) > SHADE:
            edges.append((min(end, first - 1), max(first, end + 1)))
    return filled, edges


def _usual(image: np.ndarray) -> np.ndarray:
    """The mean of the most frequent greys of each row, which lie within twice ``GREYS`` levels: int16 [height]."""
    height, count = len(image), 256 // GREYS
    bins = (np.arange(height)[:, None] * count + image // GREYS).ravel()
    pixels = np.bincount(bins, minlength=height * count).reshape(height, count)
    sums = np.bincount(bins, weights=image.ravel(), minlength=height * count).reshape(height, count)
    pixels, sums = pixels[:, 1:] + pixels[:, :-1], sums[:, 1:] + sums[:, :-1]
    best = np.argmax(pixels, axis=1), np.arange(height)
    return np.rint(sums[best[1], best[0]] / np.maximum(1, pixels[best[1], best[0]])).astype(np.int16)


def _rules(found: np.ndarray, thick: float) -> list[Body]:
    """Runs of ``found``, bool [n], that are thin enough; two that all but touch are one."""
    joined: list[Body] = []
    for first, last in runs(found):
        if joined and first - joined[-1][1] <= 2:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return [rule for rule in joined if rule[1] - rule[0] <= thick]


def _wider(mask: np.ndarray, axis: int) -> np.ndarray:
    """``mask`` with the neighbours of its pixels on both sides along ``axis``."""
    wider = mask.copy()
    if axis == 0:
        wider[1:] |= mask[:-1]
        wider[:-1] |= mask[1:]
    else:
        wider[:, 1:] |= mask[:, :-1]
        wider[:, :-1] |= mask[:, 1:]
    return wider


def _in_runs(mask: np.ndarray, length: int) -> np.ndarray:
    """Pixels of ``mask`` [rows, n] that lie in runs of at least ``length`` along a row: bool [rows, n]."""
    rows, count = mask.shape
    length = max(2, length)
    if count < length:
        return np.zeros_like(mask)
    total = np.zeros((rows, count + 1), np.int32)
    np.cumsum(mask, axis=1, out=total[:, 1:])
    full = (total[:, length:] - total[:, :-length]) == length  # the run that begins here is long enough
    begun = np.zeros((rows, count + 1), np.int32)
    np.cumsum(full, axis=1, out=begun[:, 1 : full.shape[1] + 1])
    begun[:, full.shape[1] + 1 :] = begun[:, full.shape[1], None]
    before = np.zeros((rows, count), np.int32)
    before[:, length:] = begun[:, 1 : count - length + 1]
    return begun[:, 1:] > before
