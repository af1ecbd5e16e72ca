# SPDX-License-Identifier: Apache-2.0
"""How many rows of a table are its head, where the print sets them off: by another paper, a rule below them and none
between the others, or bold letters (docs/decisions/0239). Where the print does not, no row is a head.

The VLM says where cells are, and never which of them are heads (OTSL of PaddleOCR-VL has no such mark).
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np

ROWS, CELL, SPANNING = "<nl>", re.compile("<[fe]cel>"), "<lcel>"
INKED = 60  # grey levels from the paper's
FAINT = 16  # of a light grey rule
SHADE = 6  # grey levels between the papers of two rows
THIN = 7  # px: a paper that is no higher is a rule
LOWEST = 6  # px; what is lower is no line of print
CLOSE = 0.35  # of a line's height: dots above letters and lines below them are nearer
ACROSS = 0.8  # of the print's width, that a rule below a head covers
DOWN = 0.5  # of the height: a column of pixels with as much ink is a rule
SELDOM = 1 / 3  # of the gaps between other rows: where more have rules, a rule says nothing
BOLD = 1.25  # times the strokes of the other rows
BOLDISH = 1.12  # of other rows: bold print is no sign where many have it
MOST_LINES = 4  # of a head
SIDE = 600  # px of the width that are looked at for the paper


@dataclasses.dataclass(frozen=True)
class _Print:
    """A table's picture. ``paper``: of each row of pixels; ``lines`` of print, from top to bottom: the first row of
    pixels, and the one after the last; ``ruled``: whether a rule stands behind each of them but the last; ``strokes``:
    px, of each line."""

    paper: np.ndarray
    lines: list[tuple[int, int]]
    ruled: list[bool]
    strokes: list[float]


def head_rows(picture: np.ndarray, otsl: str) -> int:
    """``picture``: uint8 ``[height, width, 3]``; ``otsl``: the table that was read on it. 0: print sets none off."""
    rows = [row for row in otsl.split(ROWS) if CELL.search(row)]
    if len(rows) < 2:
        return 0
    seen = _look(np.asarray(picture.mean(axis=2), np.float32))
    lines = max(_other_paper(seen), _above_the_rule(seen, len(rows)), _bold(seen))
    if lines < 2 or len(seen.lines) == len(rows):
        return min(lines, len(rows) - 1)
    return 2 if SPANNING in rows[0] and len(rows) > 2 else 1  # cells of several lines


def _look(grey: np.ndarray) -> _Print:
    paper = _paper(grey)
    contrast = np.abs(grey - paper[:, None])
    faint = contrast > FAINT
    ink = contrast > INKED
    ink[:, ink.mean(axis=0) > DOWN] = False
    printed = np.flatnonzero(ink.any(axis=0))
    if not len(printed):
        return _Print(paper, [], [], [])
    left, right = int(printed[0]), int(printed[-1]) + 1
    rules = faint[:, left:right].mean(axis=1) > ACROSS
    rows = ink.any(axis=1) & ~rules & ~np.roll(rules, 1) & ~np.roll(rules, -1)
    lines = _lines(rows)
    ruled = [bool(rules[above[1] : below[0]].any()) for above, below in zip(lines, lines[1:])]
    return _Print(paper, lines, ruled, [_strokes(contrast[first:last], ink[first:last]) for first, last in lines])


def _paper(grey: np.ndarray) -> np.ndarray:
    """The grey that most pixels of each row have, or nearly: float32 ``[height]``."""
    seen = grey[:, :: max(1, grey.shape[1] // SIDE)]
    steps = (seen / 8).astype(np.int64)
    counts = np.bincount((steps + 32 * np.arange(len(steps))[:, None]).ravel(), minlength=32 * len(steps))
    most = counts.reshape(len(steps), 32).argmax(axis=1)
    near = np.abs(steps - most[:, None]) <= 1
    levels = np.where(near, seen, 0).sum(axis=1) / near.sum(axis=1)
    around = np.lib.stride_tricks.sliding_window_view(np.pad(levels, THIN, mode="edge"), 2 * THIN + 1)
    return np.asarray(np.median(around, axis=1), np.float32)  # a rule is no paper


def _lines(rows: np.ndarray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], rows.astype(np.int8), [0]))))
    found: list[tuple[int, int]] = []
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist()):
        if found and first - found[-1][1] < CLOSE * min(last - first, found[-1][1] - found[-1][0]):
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return [line for line in found if line[1] - line[0] >= LOWEST]


def _strokes(contrast: np.ndarray, ink: np.ndarray) -> float:
    """How wide strokes of print are on average, px."""
    share = np.where(ink, 1.0, np.clip(contrast / max(1.0, float(contrast.max())), 0, 1))
    begins = np.count_nonzero(np.diff(ink.astype(np.int8), axis=1, prepend=0) == 1)
    return float(share[ink | np.roll(ink, 1, axis=1) | np.roll(ink, -1, axis=1)].sum() / begins) if begins else 0.0


def _other_paper(seen: _Print) -> int:
    """How many lines stand at the top on a paper of their own."""
    papers = [float(np.median(seen.paper[first:last])) for first, last in seen.lines]
    own = [abs(paper - papers[0]) < SHADE for paper in papers]
    count = own.index(False) if False in own else 0
    return count if count <= MOST_LINES and not any(own[count:]) else 0


def _above_the_rule(seen: _Print, rows: int) -> int:
    """How many lines stand above the first rule, where few rules stand between the others."""
    if True not in seen.ruled:
        return 0
    count, others = seen.ruled.index(True) + 1, seen.ruled[seen.ruled.index(True) + 1 :]
    if not others or sum(others) > SELDOM * len(others) or count > (1 if len(seen.lines) <= rows else MOST_LINES):
        return 0
    return count


def _bold(seen: _Print) -> int:
    """1 where the first line is bold and few others are: how many lines are bold does not say how many rows are."""
    if len(seen.strokes) < 3:
        return 0
    first, *others = seen.strokes
    usual = float(np.median(others))
    few = sum(stroke > BOLDISH * usual for stroke in others) <= SELDOM * len(others)
    return int(few and first >= BOLD * usual)
