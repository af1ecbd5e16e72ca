# SPDX-License-Identifier: Apache-2.0
"""A caption that was joined to a paragraph is taken apart again (docs/decisions/0240).

PaddleX joins the last text of a column and the first of the next one, because a paragraph may go on there. Where a
layout model calls captions texts, the first text of a column may be the caption of the figure above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

ABOVE = ("image", "chart", "table")
NEAR = 0.04  # of the page's height: between a figure and its caption
BESIDE = 0.5  # of the narrower one's width, that both share
# After a text's end. A word, a number, and what parts it from the caption's words: a sentence that begins with "Table 3
# shows" is none.
BEGINS = re.compile(
    r"(?:(?<=[.!?:;\u3002\uff01\uff1f])\s*|\n\s*)(?=(?:Figure|Fig\.|Table|Chart|\u56fe|\u8868)\s?[0-9]{1,3}\s?[.:\uff1a\uff0e])"
)
LEAST, MOST = 0.3, 3.0  # times as long as its share of the boxes lets one expect


def behind_figures(blocks: Sequence[dict[str, Any]], height: int) -> list[dict[str, Any]]:
    """The blocks in reading order, with what may be a caption behind its figure again: PaddleX puts texts that it joins
    one behind the other. ``height``: of the page, in pixels."""
    moved = list(blocks)
    for last, figure in _below_figures(blocks, height).values():
        if figure > last:
            block = blocks[last]
            moved = [one for one in moved if one is not block]
            place = next(at for at, one in enumerate(moved) if one is blocks[figure])
            moved.insert(place + 1, block)
    return moved


def beneath_figures(blocks: Sequence[dict[str, Any]], height: int) -> dict[int, int]:
    """Of texts that were joined: the number of the first one, and of the last one, if this stands right below a
    figure."""
    return {first: last for first, (last, _) in _below_figures(blocks, height).items()}


def _below_figures(blocks: Sequence[dict[str, Any]], height: int) -> dict[int, tuple[int, int]]:
    """The same with the number of the figure."""
    groups: dict[Any, list[int]] = {}
    for number, block in enumerate(blocks):
        if block["label"] == "text" and block.get("group_id") is not None:
            groups.setdefault(block["group_id"], []).append(number)
    figures = [number for number, block in enumerate(blocks) if block["label"] in ABOVE]
    found = {}
    for first, *others in groups.values():
        below = [one for one in figures if others and _is_next(blocks, one, others[-1], NEAR * height)]
        if below:
            found[first] = others[-1], below[0]
    return found


def apart(texts: Mapping[int, str], captions: Mapping[int, int], blocks: Iterable[Mapping[str, Any]]) -> dict[int, str]:
    """``texts`` by the numbers of ``blocks``, in which the captions among ``captions`` (see ``beneath_figures``) have
    blocks of their own."""
    boxes = [block["box"] for block in blocks]
    found = dict(texts)
    for first, last in captions.items():
        text = texts.get(first, "")
        expected = len(text) * _area(boxes[last]) / max(1.0, _area(boxes[first]) + _area(boxes[last]))
        for begin in BEGINS.finditer(text):
            caption = text[begin.end() :]
            if begin.start() and LEAST * expected <= len(caption) <= MOST * expected:
                found[first], found[last] = text[: begin.start()].rstrip(), caption.strip()
                break
    return found


def _is_next(blocks: Sequence[dict[str, Any]], figure: int, text: int, near: float) -> bool:
    """Whether a text stands right below a figure, with nothing between them."""
    above, box = blocks[figure]["box"], blocks[text]["box"]
    narrower = min(box[2] - box[0], above[2] - above[0])
    if not -near / 2 <= box[1] - above[3] <= near or _shared(box, above) < BESIDE * narrower:
        return False
    others = (block["box"] for number, block in enumerate(blocks) if number not in (figure, text))
    return not any(
        _shared(other, box) > 0 and above[3] < (other[1] + other[3]) / 2 < box[1] and other[3] <= box[3]
        for other in others
    )


def _shared(one: Any, other: Any) -> float:
    return float(min(one[2], other[2]) - max(one[0], other[0]))


def _area(box: Any) -> float:
    return float((box[2] - box[0]) * (box[3] - box[1]))
