# SPDX-License-Identifier: Apache-2.0
"""Scores of parsed pages against their ground truth."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

import numpy as np

from .pages.labels import MARGINAL

#: Blocks whose content is no running text: they count as blocks, not as characters.
WITHOUT_TEXT = ("table", "image", "chart")


def overlap(a: Sequence[float], b: Sequence[float]) -> float:
    """Intersection over union of two boxes (x1, y1, x2, y2)."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def match_blocks(
    found: Sequence[tuple[str, Sequence[float]]], truth: Sequence[tuple[str, Sequence[float]]], least: float = 0.5
) -> list[tuple[int, int]]:
    """Pairs (found index, truth index) of equal label and IoU >= ``least``, best first, each block once."""
    pairs = [
        (overlap(box, true_box), i, j)
        for i, (label, box) in enumerate(found)
        for j, (true_label, true_box) in enumerate(truth)
        if label == true_label
    ]
    taken_found, taken_truth, matched = set(), set(), []
    for iou, i, j in sorted(pairs, reverse=True):
        if iou >= least and i not in taken_found and j not in taken_truth:
            taken_found.add(i)
            taken_truth.add(j)
            matched.append((i, j))
    return matched


def f1(matched: int, found: int, truth: int) -> float:
    """Harmonic mean of precision and recall; 1 where there is nothing to find and nothing was found."""
    return 2 * matched / (found + truth) if found + truth else 1.0


def order_right(pairs: Sequence[tuple[int, int]], labels: Sequence[str]) -> bool:
    """Whether the matched blocks, in the order found, are in true order; marginal blocks do not count.

    ``labels`` are those of the truth.
    """
    sequence = [j for _, j in sorted(pairs) if labels[j] not in MARGINAL]
    return sequence == sorted(sequence)


def edit_distance(a: str, b: str) -> int:
    """Levenshtein distance, a row at a time."""
    if len(a) < len(b):
        a, b = b, a
    letters = np.array([ord(character) for character in b], np.int64)
    steps = np.arange(len(b) + 1)
    row = steps.copy()
    for index, character in enumerate(a, start=1):
        new = np.empty_like(row)
        new[0] = index
        new[1:] = np.minimum(row[1:] + 1, row[:-1] + (letters != ord(character)))
        # Insertions run along the row: the least of new[k] + (j - k) over k <= j.
        row = np.minimum.accumulate(new - steps) + steps
    return int(row[-1])


def area_under_curve(right: Sequence[float], wrong: Sequence[float]) -> float:
    """The share of pairs in which the right one scores higher, a tie counting half (Hanley and McNeil, 1982).

    Raises ValueError where there is no pair.
    """
    if not right or not wrong:
        raise ValueError(f"{len(right)} right and {len(wrong)} wrong; expected at least one of each")
    difference = np.sign(np.subtract.outer(np.array(right), np.array(wrong)))
    return float((difference.mean() + 1) / 2)


def plain(text: str) -> str:
    """Text without markup, runs of white space as one space."""
    return " ".join(html.unescape(re.sub(r"<[^<>]+>", " ", text)).split())


def page_text(blocks: Sequence[tuple[str, str]]) -> str:
    """The running text of (label, content) blocks in order, as the Markdown keeps it: without marginal blocks."""
    return " ".join(
        plain(content) for label, content in blocks if label not in MARGINAL + WITHOUT_TEXT and content.strip()
    )
