# SPDX-License-Identifier: Apache-2.0
"""A caption below a figure at the top of a column is apart from the paragraph that ended the column before."""

from __future__ import annotations

from typing import Any

import pytest

from docparser.page.captions import apart, behind_figures, beneath_figures

LAST, FIGURE, CAPTION = [50, 700, 380, 780], [420, 90, 750, 300], [420, 312, 750, 340]


def blocks(*boxes: tuple[str, list[int]], joined: tuple[int, ...] = (0, 1)) -> list[dict[str, Any]]:
    cut: list[dict[str, Any]] = [{"label": label, "box": box, "group_id": at} for at, (label, box) in enumerate(boxes)]
    for number in joined:
        cut[number]["group_id"] = joined[0]
    return cut


# As PaddleX has them: the texts that it joins stand one behind the other.
PAGE = blocks(("text", LAST), ("text", CAPTION), ("chart", FIGURE))


@pytest.mark.parametrize(
    "text, before, caption",
    [
        ("We bring water by truck. Figure 1. Wells.", "We bring water by truck.", "Figure 1. Wells."),
        ("We bring water by truck.\nTable 2: Wells", "We bring water by truck.", "Table 2: Wells"),
        (
            "\u6211\u4eec\u7528\u5361\u8f66\u8fd0\u6c34\u3002\u56fe 1\uff1a\u6c34\u4e95",
            "\u6211\u4eec\u7528\u5361\u8f66\u8fd0\u6c34\u3002",
            "\u56fe 1\uff1a\u6c34\u4e95",
        ),
    ],
)
def test_a_caption_is_a_block_of_its_own(text: str, before: str, caption: str):
    captions = beneath_figures(PAGE, 1000)
    assert captions == {0: 1}
    assert apart({0: text}, captions, PAGE) == {0: before, 1: caption}


@pytest.mark.parametrize(
    "text",
    ["We bring water by truck, as Figure 1. shows.", "It rose. Figure 1 shows how.", "Figure 1. Wells.", "Words.", "",
     "It rose. Figure 1. " + "A long text that goes on and on. " * 9],
)  # fmt: skip
def test_a_text_that_goes_on_stays_one(text: str):
    found = apart({0: text}, {0: 1}, PAGE)
    assert found == {0: text}


def test_what_stands_below_no_figure_goes_on():
    title = ("figure_title", [420, 302, 750, 310])
    for page in (
        blocks(("text", LAST), ("text", CAPTION), ("chart", [420, 90, 750, 200])),
        blocks(("text", LAST), ("text", CAPTION), ("chart", [50, 90, 380, 300])),
        blocks(("text", LAST), ("text", CAPTION), ("text", FIGURE)),
        blocks(("text", LAST), ("text", CAPTION), ("chart", FIGURE), title),
        blocks(("text", LAST), ("text", CAPTION), ("chart", FIGURE), joined=(0,)),
    ):
        assert beneath_figures(page, 1000) == {}
        assert behind_figures(page, 1000) == page


def test_a_caption_stands_behind_its_figure():
    page = [*PAGE, {"label": "text", "box": [420, 360, 750, 400], "group_id": 3}]
    assert [block["box"] for block in behind_figures(page, 1000)] == [LAST, FIGURE, CAPTION, [420, 360, 750, 400]]
