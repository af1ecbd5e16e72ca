# SPDX-License-Identifier: Apache-2.0
"""Pages much longer than wide (a screenshot of a whole web page, a till roll), for a layout model that sees every page
squeezed into one square.

Such a page is cut where its rows are empty, the model finds the boxes of each part, and these become the boxes of one
page. A page of usual shape is one part, and nothing of it changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np

MOST_STRETCHED = 4  # times as long as wide, beyond which small text is lost
PART = 1.4  # times as long as wide, as A4 is: what layout models see most
SHORTEST = 800  # rows, the side of the model's square; shorter parts show it no more
MOST_PARTS = 32
REACH = 0.5  # of a part's length: how far from its usual end a page may be cut
EDGE = 40  # levels of 255 between two pixels of a row, where a letter begins or ends
COLUMNS = 1000  # looked at
NEAR = 10  # times as much as what is around
GAP = 0.025  # of the page's width: empty rows between paragraphs; those between lines are fewer
# What stands at the head or the foot of a page is neither in its midst. Those labels are left out of the Markdown.
NOT_HEAD = {"header": "text", "header_image": "image", "doc_title": "paragraph_title"}
NOT_FOOT = {"footer": "text", "footer_image": "image", "footnote": "text"}
NUMBER = {"number": "text"}
PICTURES = ("image", "chart")
TOUCHES, SAME_SIDES = 3, 0.8  # pixels; share of the wider box's width


class Part(NamedTuple):
    """Rows ``top`` to ``bottom`` of a page."""

    top: int
    bottom: int


def parts(page: np.ndarray) -> list[Part]:
    """``page``: uint8 ``[height, width, 3]``. One part for a page of usual shape."""
    height, width = page.shape[:2]
    if height <= MOST_STRETCHED * width:
        return [Part(0, height)]
    usual = max(PART * width, SHORTEST, height / MOST_PARTS)
    count = math.ceil(height / usual)
    edges = _edges(page, max(3, round(GAP * width)))
    ends = [0]
    for number in range(1, count):
        wanted = round(number * height / count)
        reach = int(REACH * height / count / 2)
        rows = np.arange(max(ends[-1] + 1, wanted - reach), wanted + reach + 1)
        best = rows[edges[rows] == edges[rows].min()]
        ends.append(int(best[np.abs(best - wanted).argmin()]))
    return [Part(top, bottom) for top, bottom in zip(ends, [*ends[1:], height], strict=True)]


def _edges(page: np.ndarray, gap: int) -> np.ndarray:
    """How many letters begin and end on each row, and a little of how many do within ``gap`` rows: of empty rows, those
    between paragraphs come before those between lines. Borders and rules down the page are the same on all rows."""
    grey = page[:, :: max(1, page.shape[1] // COLUMNS), 1].astype(np.int16)
    of_row = (np.abs(np.diff(grey, axis=1)) > EDGE).sum(1, dtype=np.float32)[:, None]
    around = cv2.blur(of_row, (1, gap), borderType=cv2.BORDER_REPLICATE)
    of_row[1:] += of_row[:-1].copy()  # a page is cut between two rows
    return (NEAR * of_row + around)[:, 0].round(3)


def joined(found: Sequence[tuple[Part, list[dict[str, Any]]]], labels: list[str]) -> list[dict[str, Any]]:
    """The boxes of a page from those of its parts, in reading order. ``labels``: the model's, by their class numbers.

    A picture that was cut is one again. A table that was cut stays two, because one of that length cannot be read.
    """
    boxes: list[dict[str, Any]] = []
    last = len(found) - 1
    for number, (part, new) in enumerate(found):
        other = (
            (NOT_HEAD if number else {}) | (NOT_FOOT if number < last else {}) | (NUMBER if 0 < number < last else {})
        )
        moved = [_moved(box, part.top, other.get(box["label"]), labels) for box in new]
        for box in moved:
            cut = next((before for before in boxes if _goes_on(before, box, part.top)), None)
            if cut is None:
                boxes.append(box)
            else:
                _extend(cut, box)
    order = 0
    for box in boxes:
        if box.get("order") is not None:
            order += 1
            box["order"] = order
    return boxes


def _moved(box: dict[str, Any], down: int, label: str | None, labels: list[str]) -> dict[str, Any]:
    left, top, right, bottom = box["coordinate"]
    box = {**box, "coordinate": [left, top + down, right, bottom + down]}
    if box.get("polygon_points") is not None:
        box["polygon_points"] = [[x, y + down] for x, y in box["polygon_points"]]
    if label in labels:
        box |= {"label": label, "cls_id": labels.index(label), "order": box.get("order") or 1}  # counted by the caller
    return box


def _goes_on(above: dict[str, Any], below: dict[str, Any], cut: int) -> bool:
    """Whether two boxes are the halves of a picture that was cut at this row."""
    if above["label"] not in PICTURES or above["label"] != below["label"]:
        return False
    (left, _, right, end), (other_left, begin, other_right, _) = above["coordinate"], below["coordinate"]
    shared = min(right, other_right) - max(left, other_left)
    wider = max(right - left, other_right - other_left)
    return cut - end <= TOUCHES and begin - cut <= TOUCHES and shared >= SAME_SIDES * wider


def _extend(box: dict[str, Any], by: dict[str, Any]) -> None:
    (left, top, right, _), (other_left, _, other_right, bottom) = box["coordinate"], by["coordinate"]
    left, right = min(left, other_left), max(right, other_right)
    box["coordinate"] = [left, top, right, bottom]
    if box.get("polygon_points") is not None:
        box["polygon_points"] = [[left, top], [right, top], [right, bottom], [left, bottom]]
