# SPDX-License-Identifier: Apache-2.0
"""Where each block of a document stands on its pages: the truth for a layout model.

A PDF's text layer has lines and no blocks. The document knows its blocks and not where they came to stand. Both have
the same order, so each line belongs to the block whose letters it shares most, and no line to a block before that of
the line above.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from .blocks import TextBlock
from .characters import Character

LABELS = {"document_title": "doc_title", "title": "paragraph_title"}  # all other kinds are text
TITLE = 0.75  # share of a line's letters that its title must have; less is a title that runs into its paragraph
REACH = 6  # blocks that a line may lie beyond the one before
INK, MOST_OUTSIDE = 150, 0.004  # grey below is ink; the share of it that may lie outside of all blocks
WHITE = 1.18  # from one baseline to the next, in those of a paragraph; more parts what one block could hold
IN_PARTS = ("items", "numbered")  # kinds that white may part
ON_THE_LINE = set("abcdehiklmnorstuvwxz")  # letters without a part below the baseline
AROUND = 5  # px around a block that still belong to it
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class PlacedBlock:
    """``label`` is of PP-DocLayoutV2; ``bbox`` bounds the ink as (left, top, right, bottom), px."""

    label: str
    bbox: Box


@dataclass(frozen=True)
class _Line:
    text: str
    box: Box
    baseline: float

    @property
    def height(self) -> float:
        return self.box[3] - self.box[1]


def blocks_on_pages(
    source: Sequence[TextBlock], pages: Sequence[Sequence[list[Character]]], heights: Sequence[float]
) -> list[list[PlacedBlock] | None]:
    """The blocks of each page, whose lines are ``pages``; None for a page on which two blocks overlap."""
    lines = [[_line(found) for found in page if any(c.text != " " for c in found)] for page in pages]
    numbers = [[line for line in page if _is_number(line, height)] for page, height in zip(lines, heights)]
    texts = [[line for line in page if line not in number] for page, number in zip(lines, numbers)]
    owners = iter(_owners([line.text for page in texts for line in page], source))
    owned = [[(next(owners), line) for line in page] for page in texts]
    most = WHITE * _pitch(owned, source)
    placed: list[list[PlacedBlock] | None] = []
    for page_of_blocks, number in zip(owned, numbers):
        blocks = list(_blocks(page_of_blocks, source, most)) + [PlacedBlock("number", line.box) for line in number]
        placed.append(None if _overlap([block.bbox for block in blocks]) else blocks)
    return placed


def covers(blocks: Sequence[PlacedBlock], image: Image.Image) -> bool:
    """Whether all ink of the page lies in its blocks."""
    ink = np.asarray(image.convert("L")) < INK
    total = int(ink.sum())
    left_over = ink.copy()
    for block in blocks:
        left, top, right, bottom = (round(value) for value in block.bbox)
        left_over[max(0, top - AROUND) : bottom + AROUND, max(0, left - AROUND) : right + AROUND] = False
    return total > 0 and int(left_over.sum()) <= MOST_OUTSIDE * total


def _line(found: list[Character]) -> _Line:
    inked = [c for c in found if c.text != " "]
    box = (
        min(c.left for c in inked),
        min(c.top for c in inked),
        max(c.right for c in inked),
        max(c.bottom for c in inked),
    )
    letters = [c.bottom for c in inked if c.text.lower() in ON_THE_LINE] or [box[3]]
    return _Line("".join(c.text for c in found), box, statistics.median(letters))


def _is_number(line: _Line, height: float) -> bool:
    return line.text.strip().isdigit() and line.box[1] > 0.88 * height


def _trigrams(text: str) -> set[str]:
    letters = "".join(c for c in text.lower() if c.isalnum())
    return {letters[first : first + 3] for first in range(max(1, len(letters) - 2))} if letters else set()


def _owners(lines: Sequence[str], source: Sequence[TextBlock]) -> list[int]:
    """The index of each line's block, never falling."""
    known = [_trigrams(" ".join((*block.parts, block.term))) for block in source]
    best = np.full((len(lines), len(source)), -1e9)
    came = np.zeros((len(lines), len(source)), np.int64)
    before = np.full(len(source), -1e9)
    before[0] = 0.0
    for row, text in enumerate(lines):
        seen = _trigrams(text)
        shares = np.array([len(seen & grams) / len(seen) if seen else 0.5 for grams in known])
        # A title that runs into its paragraph shares a line with it.
        wanting = ["title" in block.kind and share < TITLE for block, share in zip(source, shares)]
        scores = np.where(wanting, -1.0, shares)
        for index in range(len(source)):
            first = max(0, index - REACH)
            chosen = first + int(before[first : index + 1].argmax())
            came[row, index] = chosen
            best[row, index] = before[chosen] + scores[index]
        before = best[row]
    owners: list[int] = []
    index = int(before.argmax()) if lines else 0
    for row in range(len(lines) - 1, -1, -1):
        owners.append(index)
        index = int(came[row, index])
    return owners[::-1]


def _pitch(owned: Sequence[Sequence[tuple[int, _Line]]], source: Sequence[TextBlock]) -> float:
    """From one baseline to the next within the document's paragraphs, px; infinite where none has two lines."""
    steps = [
        line.baseline - last.baseline
        for page in owned
        for (index, last), (other, line) in zip(page, page[1:])
        if index == other and source[index].kind == "paragraph" and line.box[1] >= last.baseline
    ]
    return statistics.median(steps) if steps else math.inf


def _blocks(owned: Sequence[tuple[int, _Line]], source: Sequence[TextBlock], most: float) -> Iterator[PlacedBlock]:
    """Lines of one block that follow each other in one column; paragraphs that nothing parts, as one; and items that
    white parts, each for itself. White is more than ``most`` px from one baseline to the next."""
    group: list[_Line] = []
    owner = -1
    for index, line in owned:
        if group and not _goes_on(group, line, index == owner, source[owner], source[index], most):
            yield _placed(source[owner], group)
            group = []
        group.append(line)
        owner = index
    if group:
        yield _placed(source[owner], group)


def _goes_on(group: Sequence[_Line], line: _Line, same: bool, block: TextBlock, other: TextBlock, most: float) -> bool:
    last = group[-1]
    level = last.box[1] < line.box[3] and line.box[1] < last.box[3]
    if not level and (line.box[1] < last.box[1] or line.box[0] > max(one.box[2] for one in group)):
        return False  # the next column
    close = line.baseline - last.baseline <= most
    if same:
        return level or close or block.kind not in IN_PARTS
    flush = abs(line.box[0] - min(one.box[0] for one in group)) < 0.5 * line.height
    return block.kind == other.kind == "paragraph" and flush and close


def _placed(block: TextBlock, lines: Sequence[_Line]) -> PlacedBlock:
    lefts, tops, rights, bottoms = zip(*(line.box for line in lines))
    box = round(min(lefts), 1), round(min(tops), 1), round(max(rights), 1), round(max(bottoms), 1)
    return PlacedBlock(LABELS.get(block.kind, "text"), box)


def _overlap(boxes: Sequence[Box]) -> bool:
    return any(
        min(a[2], b[2]) - max(a[0], b[0]) > 2 and min(a[3], b[3]) - max(a[1], b[1]) > 2
        for index, a in enumerate(boxes)
        for b in boxes[index + 1 :]
    )
