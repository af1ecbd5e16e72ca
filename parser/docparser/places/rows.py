# SPDX-License-Identifier: Apache-2.0
"""A line along its own direction: its ink in ems, and what its white says of where words end."""

from __future__ import annotations

import dataclasses

from docparser.places.box import Box
from docparser.places.ink import Line

BLANK, SLOPE, STEEPEST = 0.19, 0.05, 6.0  # ems: white that may be both; how fast another is unlikely; and at most
TOUCHING = 1.3  # ems of ink: more is several ideographs
HYPHEN_HEIGHT, HYPHEN_WIDTH = 0.25, 0.15  # of a line's height


@dataclasses.dataclass(frozen=True)
class Row:
    """``low``, ``high``: of each run of ink, ems; ``boxes``: of each, on the page. ``before``: how unlikely the white
    before each is between two words; ``inside``: how unlikely all white up to each is within words. ``ems``: of the
    line; ``hyphen``: it ends in a stroke that may be one."""

    low: list[float]
    high: list[float]
    boxes: list[Box]
    before: list[float]
    inside: list[float]
    ems: float
    hyphen: bool


def row_of(line: Line, em: float, *, ideographs: bool, backwards: bool) -> Row:
    """``em``: pixels. ``ideographs``: there are some in the text; ``backwards``: it runs from right to left."""
    boxes = [part for run in line.runs for part in (_parts(run, line.down, em) if ideographs else [run])]
    ends = [(box.top, box.bottom) if line.down else (box.left, box.right) for box in boxes]
    if backwards:
        boxes, ends = boxes[::-1], [(-high, -low) for low, high in reversed(ends)]
    low, high = [end[0] / em for end in ends], [end[1] / em for end in ends]
    before, inside = [0.0] * len(ends), [0.0] * len(ends)
    for at in range(1, len(ends)):
        gap = low[at] - high[at - 1]
        before[at] = _unlikely(BLANK - gap)
        inside[at] = inside[at - 1] + _unlikely(gap - BLANK)
    return Row(low, high, boxes, before, inside, length(line) / em, _hyphen(line))


def length(line: Line) -> float:
    """Pixels along the line."""
    return line.box.height if line.down else line.box.width


def _parts(run: Box, down: bool, em: float) -> list[Box]:
    """Ideographs that touch, apart."""
    along = (run.height if down else run.width) / em
    parts = round(along) if along > TOUCHING else 1
    return cut(run, [at / parts for at in range(parts + 1)], down)


def cut(box: Box, shares: list[float], down: bool) -> list[Box]:
    """The parts of ``box`` between ``shares`` of its length, which rise from 0 to 1."""
    if down:
        ends = [box.top + share * box.height for share in shares]
        return [Box(box.left, top, box.right, bottom) for top, bottom in zip(ends, ends[1:])]
    ends = [box.left + share * box.width for share in shares]
    return [Box(left, box.top, right, box.bottom) for left, right in zip(ends, ends[1:])]


def _unlikely(ems: float) -> float:
    return min((ems / SLOPE) ** 2, STEEPEST) if ems > 0 else 0.0


def _hyphen(line: Line) -> bool:
    if line.down or len(line.runs) < 2:
        return False
    last, height = line.runs[-1], line.box.height
    flat = last.height <= HYPHEN_HEIGHT * height and last.width >= max(HYPHEN_WIDTH * height, 1.2 * last.height)
    middle = (last.top + last.bottom) / 2
    return flat and line.box.top + 0.25 * height < middle < line.box.bottom - 0.2 * height
