# SPDX-License-Identifier: Apache-2.0
"""Some blocks of a page, one behind the other, and their Markdown, as PaddleX writes it within the whole page.

It computes over what the VLM wrote, so it belongs into a child process (``worker/text_jobs``).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from paddlex.inference.common.result.converter.markdown_converter import MarkdownConverter
from paddlex.inference.pipelines.paddleocr_vl.result import PaddleOCRVLBlock, PaddleOCRVLResult

from docparser.contract.options import AnswerOptions
from tests.support.old_page.answers import Answers, assembled

BEFORE = "before"  # a label of our own: what stands before the part, so that PaddleX parts the two


@dataclasses.dataclass(frozen=True)
class PagePart:
    """``answers`` of the part's blocks; of the figures in its tables too, which are blocks that stand elsewhere and are
    not written themselves. ``settings`` and ``width`` (pixels) are the page's. ``first``: no text stands before it."""

    answers: Answers
    settings: dict[str, Any]
    width: int
    first: bool
    answer: AnswerOptions


def markdown(part: PagePart) -> str:
    """The part's share of the page's Markdown, the gap before it included."""
    blocks = assembled(part.answers)[0]
    page = PaddleOCRVLResult(
        {"input_path": None, "page_index": None, "model_settings": part.settings, "width": part.width}
    )
    handlers = page._build_handle_funcs_dict(pretty=part.answer.prettify) | {BEFORE: lambda block: BEFORE}
    if not part.first:
        blocks = [PaddleOCRVLBlock(BEFORE, (0, 0, 0, 0)), *blocks]
    text: str = MarkdownConverter.convert(
        blocks, handle_funcs_dict=handlers, show_formula_number=part.answer.formula_numbers
    )["markdown_texts"]
    return text if part.first else text.removeprefix(BEFORE)
