# SPDX-License-Identifier: Apache-2.0
"""Where a table's picture is divided: by its rules, and where it has none, by white that no row prints on.

A rule is a run of pixels that differ from the paper and is longer than letters are. The paper of a row of pixels is the
grey that most of them have, or nearly: print has many greys. So a row may be shaded, or dark with white letters.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

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
GAP = 0.65  # lines of print: white between two words is narrower
GAP_IN_SLOT = 1.8  # the same, where rules part other columns
LEAST_WHITE = 0.2  # lines of print, that no row prints on between two columns
USUAL = 0.6  # of the pieces of print in a full row: a row with fewer does not say where columns are
LEAST_SLOT = 0.5  # lines of print: a narrower one is between the two lines of a double rule
Piece = tuple[int, int]  # first column of pixels with print, and the column after the last
Span = tuple[int, int]  # the first column of a cell, and the one after its last


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


def find_rules(image: np.ndarray, line: float | None) -> Rules:
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


class Edge(NamedTuple):
    """Between two columns. ``rule``: its first px and the px after the last; both the same where white parts them."""

    rule: Body
    ruled: bool

    @property
    def at(self) -> int:
        return (self.rule[0] + self.rule[1]) // 2


def pieces(letters: np.ndarray, line: float) -> list[Piece]:
    """The words of a row of a table, joined where no more than a blank is between them. ``letters``: bool
    [height, width], pixels of print; ``line``: px of a line's ink."""
    return _joined(runs(np.asarray(letters.any(axis=0))), GAP * line)


def slots(rules: list[Body], letters: np.ndarray, line: float) -> list[Body]:
    """Where the table's columns may be between its ``rules``; without the margins. ``letters`` as for ``pieces``."""
    width = letters.shape[1]
    between = list(zip([0, *(rule[1] for rule in rules)], [*(rule[0] for rule in rules), width]))
    margins = {0, len(between) - 1} if rules else set()
    return [
        (first, last)
        for number, (first, last) in enumerate(between)
        if last - first >= LEAST_SLOT * line
        and (number not in margins or (last - first >= line and letters[:, first:last].any()))
    ]


def edges(slots: list[Body], rows: list[list[Piece]], line: float) -> list[Edge]:
    """Between the columns, from left to right. ``rows``: the pieces of each line of print."""
    found: list[Edge] = []
    for number, slot in enumerate(slots):
        if number:
            found.append(Edge((slots[number - 1][1], slot[0]), True))
        inside = [[piece for piece in row if slot[0] <= (piece[0] + piece[1]) // 2 < slot[1]] for row in rows]
        found += [Edge((at, at), False) for at in _whites(inside, line, GAP if len(slots) == 1 else GAP_IN_SLOT)]
    return found


def _whites(rows: list[list[Piece]], line: float, gap: float) -> list[int]:
    """Where white parts the pieces of one slot."""
    wide = [_joined(row, gap * line) for row in rows]
    printed = [row for row in wide if row]
    if len(printed) < 2:
        return []
    full = float(np.percentile([len(row) for row in printed], 75))
    if full < 2:
        return []
    telling = [row for row in printed if len(row) >= max(2.0, USUAL * full)]
    others = [row for row in printed if len(row) < max(2.0, USUAL * full)]
    if len(telling) < 2 or (gap == GAP_IN_SLOT and len(telling) < max(3, USUAL * len(printed))):
        return []
    whites = _between(_union(telling), LEAST_WHITE * line)
    # A row with few pieces has a say in where white is, but not across it.
    found = []
    for first, last in whites:
        for row in others:
            for left, right in row:
                if left < first and right > last:
                    continue
                if first < right < last and left < first:
                    first = right
                elif first < left < last and right > last:
                    last = left
        found.append((first + last) // 2)
    return _without_half_columns(found, wide)


def _without_half_columns(whites: list[int], rows: list[list[Piece]]) -> list[int]:
    """No column has its head on the left and all else on the right, or the reverse: that is one column."""
    kept = list(whites)
    number = 0
    while number < len(kept):
        limits = [-1, *kept, 1 << 30]
        left, right = (
            {place for place, row in enumerate(rows) if any(limits[k] <= (a + b) // 2 < limits[k + 1] for a, b in row)}
            for k in (number, number + 1)
        )
        if not left & right and 1 in (len(left), len(right)):
            del kept[number]
        else:
            number += 1
    return kept


def _joined(row: list[Piece], gap: float) -> list[Piece]:
    joined: list[Piece] = []
    for first, last in row:
        if joined and first - joined[-1][1] < gap:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def _union(rows: list[list[Piece]]) -> list[Piece]:
    union: list[Piece] = []
    for first, last in sorted(piece for row in rows for piece in row):
        if union and first <= union[-1][1]:
            union[-1] = (union[-1][0], max(last, union[-1][1]))
        else:
            union.append((first, last))
    return union


def _between(union: list[Piece], least: float) -> list[Piece]:
    return [(left[1], right[0]) for left, right in zip(union, union[1:]) if right[0] - left[1] >= least]


def spans(row: list[Piece], covered: list[bool], edges: list[Edge]) -> list[Span]:
    """The cells of a row. ``covered``: of each edge, whether a rule parts the row there; False for white."""
    crossed = [any(first < edge.at - 1 and last > edge.at + 1 for first, last in row) for edge in edges]
    parted = [has_rule or not cross for has_rule, cross in zip(covered, crossed)]
    if len(row) == 1 and any(crossed) and not any(covered):
        parted = [False] * len(edges)  # a title
    first = 0
    while first <= len(edges):  # fields between two rules that this row has, with rules that others have
        last = first
        while last < len(edges) and edges[last].ruled and not covered[last]:
            last += 1
        left = edges[first - 1].at if first else 0
        right = edges[last].at if last < len(edges) else 1 << 30
        if last > first and sum(left <= (a + b) // 2 < right for a, b in row) == 1:
            parted[first:last] = [False] * (last - first)
        first = last + 1
    cuts = [0, *(number + 1 for number, cut in enumerate(parted) if cut), len(edges) + 1]
    return list(zip(cuts, cuts[1:]))
