# SPDX-License-Identifier: Apache-2.0
"""A caption that was joined to a paragraph is taken apart again (docs/decisions/0240).

PaddleX joins the last text of a column and the first of the next one, because a paragraph may go on there. Where a
layout model calls captions texts, the first text of a column may be the caption of the figure above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from docparser.page.blocks import Blocks

ABOVE = ("image", "chart", "table")
NEAR = 0.04  # of the page's height: between a figure and its caption
BESIDE = 0.5  # of the narrower one's width, that both share
# After a text's end. A word, a number, and what parts it from the caption's words: a sentence that begins with "Table 3
# shows" is none.
BEGINS = re.compile(
    r"(?:(?<=[.!?:;\u3002\uff01\uff1f])\s*|\n\s*)(?=(?:Figure|Fig\.|Table|Chart|\u56fe|\u8868)\s?[0-9]{1,3}\s?[.:\uff1a\uff0e])"
)
LEAST, MOST = 0.3, 3.0  # times as long as its share of the boxes lets one expect


def beneath_figures(blocks: Blocks, height: int) -> dict[int, int]:
    """Of texts that were joined: the number of the first one, and of the last one, if this stands right below a figure.
    ``height``: of the page."""
    figures = [block["box"] for block in blocks.cut if block["label"] in ABOVE]
    found = {}
    for first in blocks.questions:
        *_, last = blocks.joined(first)
        if last != first and any(_stands_below(blocks.cut[last]["box"], box, NEAR * height) for box in figures):
            found[first] = last
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


def _stands_below(box: Any, figure: Any, near: float) -> bool:
    shared = min(box[2], figure[2]) - max(box[0], figure[0])
    narrower = min(box[2] - box[0], figure[2] - figure[0])
    return bool(-near / 2 <= box[1] - figure[3] <= near and shared >= BESIDE * narrower)


def _area(box: Any) -> float:
    return float((box[2] - box[0]) * (box[3] - box[1]))
