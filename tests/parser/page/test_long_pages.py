# SPDX-License-Identifier: Apache-2.0
"""Long pages are cut at empty rows, and what was found in their parts is one page."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from docparser.page.long_pages import Part, joined, parts

LABELS = ["header", "text", "image", "footer", "number", "table", "doc_title", "paragraph_title"]


def page(width: int, height: int, lines: range = range(0), thick: int = 14) -> np.ndarray:
    """White, with a line of letters at each of these rows."""
    pixels = np.full((height, width, 3), 255, np.uint8)
    for top in lines:
        pixels[top : top + thick, 10 : width - 10 : 4] = 0
    return pixels


def test_a_page_of_usual_shape_is_one_part():
    for width, height in ((1190, 1684), (1684, 1190), (720, 2880), (9000, 720)):
        assert parts(page(width, height)) == [Part(0, height)]


@pytest.mark.parametrize(
    ("pixels", "count"),
    [
        (page(720, 9000, range(20, 8980, 90)), 9),
        (page(720, 9000), 9),  # nowhere to cut, and nowhere not to
        (page(720, 9000, range(0, 9000, 18), 16), 9),  # close lines
        (page(576, 30000, range(40, 29900, 60)), 32),
        (page(5, 2500), 4),
    ],
)
def test_a_long_page_is_cut_at_empty_rows(pixels, count):
    found = parts(pixels)
    height = len(pixels)
    assert len(found) == count and found[0].top == 0 and found[-1].bottom == height
    for above, below in itertools.pairwise(found):
        assert above.bottom == below.top
        assert not (pixels[below.top - 1 : below.top + 1] == 0).any(), "no letter is cut"
    assert max(part.bottom - part.top for part in found) < 2 * height / count


def test_a_border_down_the_page_does_not_keep_it_whole():
    pixels = page(400, 4000, range(20, 3980, 50), 30)
    pixels[:, 3:6] = pixels[:, 394:397] = 0
    for part in parts(pixels)[1:]:
        assert not (pixels[part.top - 1 : part.top + 1, 10:390] == 0).any()


def box(label: str, left: int, top: int, right: int, bottom: int, **more: object) -> dict:
    order = None if label in ("header", "footer", "number") else 1
    corners = {"label": label, "cls_id": LABELS.index(label), "coordinate": [left, top, right, bottom]}
    return {**corners, "score": 0.9, "order": order, **more}


def test_boxes_of_parts_are_those_of_one_page():
    of_parts = [
        (Part(0, 1000), [box("header", 0, 0, 99, 9), box("doc_title", 0, 20, 99, 60), box("number", 0, 990, 99, 999)]),
        (
            Part(1000, 1900),
            [box("doc_title", 0, 5, 99, 40), box("text", 0, 50, 99, 90), box("footer", 0, 880, 99, 890)],
        ),
        (Part(1900, 3000), [box("header", 0, 3, 99, 40), box("footer", 0, 1080, 99, 1090)]),
    ]
    found = joined(of_parts, LABELS)
    assert [(box["label"], *box["coordinate"][1::2], box["order"]) for box in found] == [
        ("header", 0, 9, None),
        ("doc_title", 20, 60, 1),
        ("number", 990, 999, None),  # of a first page that has one
        ("paragraph_title", 1005, 1040, 2),
        ("text", 1050, 1090, 3),
        ("text", 1880, 1890, 4),
        ("text", 1903, 1940, 5),
        ("footer", 2980, 2990, None),
    ]
    assert all(LABELS[box["cls_id"]] == box["label"] for box in found)


def test_a_picture_that_was_cut_is_one_again_and_a_table_is_not():
    corners = [[5, 800], [95, 800], [95, 1000], [5, 1000]]
    for label, count in (("image", 1), ("table", 2)):
        above = box(label, 5, 800, 95, 999, polygon_points=corners)
        below = box(label, 6, 0, 96, 300, polygon_points=[[6, 0], [96, 0], [96, 300], [6, 300]])
        found = joined([(Part(0, 1000), [above]), (Part(1000, 2000), [below])], LABELS)
        assert len(found) == count
        assert (found[0]["coordinate"] == [5, 800, 96, 1300]) is (count == 1)
        assert max(y for _, y in found[-1]["polygon_points"]) == 1300
    apart = [(Part(0, 1000), [box("image", 5, 800, 95, 960)]), (Part(1000, 2000), [box("image", 5, 2, 95, 300)])]
    assert len(joined(apart, LABELS)) == 2
