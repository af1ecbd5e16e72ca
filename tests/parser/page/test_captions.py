# SPDX-License-Identifier: Apache-2.0
"""A caption below a figure at the top of a column is apart from the paragraph that ended the column before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from docparser.page.blocks import Blocks
from docparser.page.captions import apart, beneath_figures
from docparser.page.question import Question

LAST, FIGURE, CAPTION = [50, 700, 380, 780], [420, 90, 750, 300], [420, 312, 750, 340]
QUESTION = Question(np.zeros((1, 1, 3), np.uint8), "OCR:", 1, 1)


def blocks(*boxes: tuple[str, list[int]], joined: tuple[int, ...] = (0, 2)) -> Blocks:
    cut: list[dict[str, Any]] = [{"label": label, "box": box} for label, box in boxes]
    for number in joined:
        cut[number]["group_id"] = joined[0]
    asked = {
        number: QUESTION for number, block in enumerate(cut) if block["label"] == "text" and number not in joined[1:]
    }
    return Blocks(cut, asked, {}, {}, frozenset(), [], False)


PAGE = blocks(("text", LAST), ("chart", FIGURE), ("text", CAPTION))


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
    assert captions == {0: 2}
    assert apart({0: text}, captions, PAGE.cut) == {0: before, 2: caption}


@pytest.mark.parametrize(
    "text",
    ["We bring water by truck, as Figure 1. shows.", "It rose. Figure 1 shows how.", "Figure 1. Wells.", "Words.", "",
     "It rose. Figure 1. " + "A long text that goes on and on. " * 9],
)  # fmt: skip
def test_a_text_that_goes_on_stays_one(text: str):
    found = apart({0: text}, {0: 2}, PAGE.cut)
    assert found == {0: text}


def test_what_stands_below_no_figure_goes_on():
    assert beneath_figures(blocks(("text", LAST), ("chart", [420, 90, 750, 200]), ("text", CAPTION)), 1000) == {}
    assert beneath_figures(blocks(("text", LAST), ("chart", [50, 90, 380, 300]), ("text", CAPTION)), 1000) == {}
    assert beneath_figures(blocks(("text", LAST), ("text", FIGURE), ("text", CAPTION)), 1000) == {}
    assert beneath_figures(blocks(("text", LAST), ("chart", FIGURE), ("text", CAPTION), joined=(0,)), 1000) == {}
