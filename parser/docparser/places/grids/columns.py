# SPDX-License-Identifier: Apache-2.0
"""The columns of a table: between its rules, and where it has none, between white that no row prints on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from docparser.places.grids.bodies import Body, runs

GAP = 0.65  # lines of print: white between two words is narrower
GAP_IN_SLOT = 1.8  # the same, where rules part other columns
LEAST_WHITE = 0.2  # lines of print, that no row prints on between two columns
USUAL = 0.6  # of the pieces of print in a full row: a row with fewer does not say where columns are
LEAST_SLOT = 0.5  # lines of print: a narrower one is between the two lines of a double rule

Piece = tuple[int, int]  # first column of pixels with print, and the column after the last
Span = tuple[int, int]  # the first column of a cell, and the one after its last


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
