# SPDX-License-Identifier: Apache-2.0
"""A low text right below a figure is its caption; nothing else is."""

from __future__ import annotations

import pytest

from docparser.small_print.reading import with_captions

FIGURE, HEIGHT = ("chart", 420, 90, 750, 300), 1000


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (("text", 420, 312, 750, 340), "figure_title"),
        (("text", 500, 298, 600, 320), "figure_title"),
        (("text", 420, 312, 750, 400), "text"),  # a paragraph
        (("text", 420, 360, 750, 388), "text"),  # further down
        (("text", 50, 312, 380, 340), "text"),  # in another column
        (("text", 420, 60, 750, 85), "text"),  # above
        (("paragraph_title", 420, 312, 750, 340), "paragraph_title"),
    ],
)
def test_a_caption(text: tuple[str, int, int, int, int], label: str):
    boxes = [{"label": name, "coordinate": place, "score": 1} for name, *place in (text, FIGURE)]
    found = with_captions(boxes, HEIGHT)
    assert [box["label"] for box in found] == [label, "chart"]
    assert [box["coordinate"] for box in found] == [box["coordinate"] for box in boxes]
