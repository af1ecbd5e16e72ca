# SPDX-License-Identifier: Apache-2.0
"""Parts of a page's Markdown while the VLM still reads it: joined, they are the page's Markdown, whatever is on the
page and in whatever order the answers come. The page is the real one from its layout on; the VLM is not asked.
"""

from __future__ import annotations

import io
import pickle
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from docparser.contract.schemas import OutputOptions, ParseOptions
from docparser.http.dialects.openai_completion import PageText
from docparser.vlm.client import Reply
from docparser.vlm.failures import BlockNote

Box = tuple[str, int, int, int, int]  # label and corners, in pixels of a page of 800 x 1000
PLAIN = OutputOptions(prettifyMarkdown=False, returnMarkdownImages=False)
PRETTY = OutputOptions(showFormulaNumber=True, returnMarkdownImages=False)
TABLE = "<fcel>a<fcel>[F2]<nl><fcel>b<fcel>c<nl>"
FAILED = Reply("", BlockNote("failed", "the server failed"))
CUT = Reply("a text that ends amid", BlockNote("length", "it is too long"))


class Page:
    """A page from its layout on; the answers come in the order of ``order``, by the number of the question."""

    def __init__(self, boxes: list[Box], replies: dict[int, Reply], order: Any, answer: OutputOptions, **said: Any):
        from docparser.page.blocks import BlockTexts, page_blocks
        from docparser.page.early_text import EarlyText
        from docparser.page.frozen import Known, freeze, frozen_blocks
        from docparser.page.paddlex_private import gather_imgs

        self.answer, self.told = answer, list[str]()
        image = np.random.default_rng(1).integers(0, 255, (1000, 800, 3), np.uint8)
        found = [
            {
                "cls_id": 0,
                "label": label,
                "score": 0.9,
                "coordinate": list(box),
                "order": number,
                "polygon_points": None,
            }
            for number, (label, *box) in enumerate(boxes)
        ]
        flags = ("use_chart_recognition", "use_seal_recognition", "use_ocr_for_image_block")
        settings = {
            "use_doc_preprocessor": False,
            "use_layout_detection": True,
            **{flag: said.get(flag, False) for flag in flags},
            "format_block_content": False,
            "merge_layout_blocks": True,
            "markdown_ignore_labels": said.get("ignored", []),
        }
        figures = gather_imgs(image, found)
        blocks = page_blocks(image, found, figures, settings, ParseOptions(layoutShapeMode="rect"))
        early = EarlyText(answer, self._write, self._tell)
        early.laid_out(blocks, frozenset(), settings, 800)
        asked = list(blocks.questions)
        self.asked = [replies.get(at, Reply(f"text {at}")) for at in range(len(asked))]
        there: dict[int, Reply] = {}
        for at in order(len(asked)):
            there[asked[at]] = self.asked[at]
            early.answered(there)
        answers = BlockTexts.of(blocks, {number: reply.text for number, reply in there.items()})
        data = {"page_count": None, "width": 800, "height": 1000, "doc_preprocessor_res": None, "layout_det_res": None}
        self._frozen = freeze(
            {**data, "model_settings": settings}, figures, frozen_blocks(blocks, defaultdict(Known)), answers
        )

    def _write(self, part: Any) -> str:
        from docparser.worker.text_jobs import read_part

        sink = io.BytesIO()
        read_part({}, io.BytesIO(pickle.dumps(part)), sink)
        return sink.getvalue().decode()

    def _tell(self, offset: int, text: str) -> None:
        assert offset == sum(map(len, self.told))
        self.told.append(text)

    def whole(self) -> bytes:
        """The page's entry in an answer of /layout-parsing."""
        from docparser.page.frozen import without_pictures
        from docparser.worker.text_jobs import ReadPage, read_page

        task = ReadPage(without_pictures(self._frozen), 1, self.answer, 1000)
        sink = io.BytesIO()
        read_page({}, io.BytesIO(pickle.dumps(task)), sink)
        return sink.getvalue()


def column(*labels: str) -> list[Box]:
    """Blocks one below the other."""
    return [(label, 50, 20 + 70 * row, 750 - 3 * row, 80 + 70 * row) for row, label in enumerate(labels)]


IN_TABLE: list[Box] = [
    ("text", 50, 20, 750, 80),
    ("table", 50, 100, 750, 500),
    ("image", 100, 120, 300, 300),
    ("text", 50, 520, 750, 600),
]
PAGES: dict[str, tuple[list[Box], dict[int, Reply], dict[str, Any]]] = {
    "titles": (
        column("doc_title", "paragraph_title", "text", "paragraph_title", "text", "abstract", "reference"),
        {0: Reply("A report"), 1: Reply("1. First"), 3: Reply("1.1.2 Deep\nin lines."), 5: Reply("Abstract\nof it")},
        {},
    ),
    "headings": (
        column("paragraph_title", "paragraph_title", "text", "paragraph_title", "text", "text"),
        {0: Reply("3D printing"), 1: Reply("Ipsum labore."), 3: Reply("Ipsum labore")},
        {},
    ),
    "texts merged over columns": (
        [("text", 50, 100, 380, 500), ("text", 420, 90, 750, 400), ("text", 50, 600, 750, 700)],
        {},
        {},
    ),
    "a table with a figure": (IN_TABLE, {1: Reply(TABLE)}, {}),
    "a table with a figure that is read": (
        IN_TABLE,
        {1: Reply(TABLE), 2: Reply("words in it")},
        {"use_ocr_for_image_block": True},
    ),
    "formulas with numbers": (
        column("text", "display_formula", "formula_number", "text", "display_formula", "text", "formula_number"),
        {1: Reply("$$ a + b $$"), 2: Reply("(1)"), 4: Reply("\\[ c \\]"), 6: Reply("(2)")},
        {},
    ),
    "pictures and captions": (
        column("image", "figure_title", "chart", "seal", "header_image", "vision_footnote", "text", "footnote"),
        {},
        {},
    ),
    "charts and seals that are read": (
        column("chart", "seal", "image", "text", "table"),
        {0: Reply("a | b\n1 | 2"), 1: Reply("a seal")},
        {"use_chart_recognition": True, "use_seal_recognition": True},
    ),
    "failed and cut": (
        column("text", "table", "text", "display_formula", "text", "text"),
        {0: FAILED, 1: FAILED, 2: CUT, 3: FAILED, 5: Reply("")},
        {},
    ),
    "white at the ends": (
        column("text", "text", "table", "text", "text"),
        {
            0: Reply(""),
            1: Reply(" \n\n "),
            2: Reply("\n<fcel>a<nl>\n"),
            3: Reply("\n\nb \n\n"),
            4: Reply(" \x0c\ud800 "),
        },
        {},
    ),
    "labels left out": (
        column("header", "text", "number", "text", "footer"),
        {},
        {"ignored": ["header", "number", "footer"]},
    ),
    "a table among texts": (
        column("text", "table", "text", "display_formula", "text"),
        {1: Reply(TABLE), 3: Reply("$$ d $$")},
        {},
    ),
}


def shuffled(seed: int, count: int) -> list[int]:
    return random.Random(seed).sample(range(count), count)


@pytest.mark.parametrize("answer", [PLAIN, PRETTY], ids=["plain", "pretty"])
@pytest.mark.parametrize("name", PAGES)
def test_the_parts_of_a_page_are_its_text(name: str, answer: OutputOptions):
    from docparser.http.dialects.openai_completion import _markdown

    boxes, replies, said = PAGES[name]
    orders: list[Callable[[int], Sequence[int]]] = [range, lambda count: range(count)[::-1]]
    orders += [partial(shuffled, seed) for seed in range(2)]
    for order in orders:
        page = Page(boxes, replies, order, answer, **said)
        shown, text = PageText(), _markdown(page.whole())
        parts = [shown.part(sum(map(len, page.told[:at])), part) for at, part in enumerate(page.told)]
        assert "".join([*parts, shown.rest(text)]) == text
        if order is range and len(page.asked) > 2:
            assert page.told, "answers in reading order are told before the last is there"


def told(name: str, answer: OutputOptions, order: Any = range) -> list[str]:
    boxes, replies, said = PAGES[name]
    return [text.strip() for text in Page(boxes, replies, order, answer, **said).told]


def test_a_block_is_told_as_soon_as_it_is_settled():
    first, second = told("a table among texts", PLAIN, lambda count: [0, 2, 4, 1, 3])
    assert first == "text 0" and second.startswith("<table") and second.endswith("text 2"), "the table comes late"
    assert told("titles", PLAIN)[:3] == ["# A report", "### 1. First", "text 2"]
    assert told("titles", PLAIN, lambda count: [1, 2, 0, *range(3, count)])[0] == "# A report\n\n### 1. First\n\ntext 2"


def test_headings_are_told_as_printed():
    assert told("headings", PLAIN) == ["## 3D printing", "## Ipsum labore.", "text 2", "## Ipsum labore", "text 4"]


def test_what_looks_ahead_is_held():
    formulas = told("formulas with numbers", PRETTY)
    assert "\\tag*{(1)}" in formulas[1] and "text 0" in formulas[0], "a formula waits for its number"
    assert told("formulas with numbers", PLAIN)[1] == "$$ a + b $$", "and only where the number is written into it"
    assert len(told("a table with a figure that is read", PLAIN)) == 2, "a table waits for its figures' texts"
    assert "words in it" in told("a table with a figure that is read", PLAIN)[1]
    assert "<img" in told("a table with a figure", PLAIN)[1]


def test_nothing_is_told_before_the_vlm_has_read_a_block():
    assert told("failed and cut", PLAIN)[0] == "a text that ends amid", "the failed ones before it have no text"


def test_charts_and_seals_are_asked_for_where_the_settings_say_so():
    for said in ({}, {"use_chart_recognition": True}, {"use_seal_recognition": True}):
        assert len(Page(column("chart", "seal", "text"), {}, range, PLAIN, **said).asked) == 1 + len(said)


def test_a_page_that_is_begun_again():
    page = PageText()
    assert [page.part(0, "a\n"), page.part(0, "a\n"), page.part(2, "\nb"), page.part(9, "z")] == ["a", "", "\n\nb", ""]
    assert page.rest("a\n\nb\n\nc") == "\n\nc"
    from docparser.errors import InternalError

    other = PageText()
    other.part(0, "a")
    with pytest.raises(InternalError, match="read twice"):
        other.rest("b")
