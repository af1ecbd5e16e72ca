# SPDX-License-Identifier: Apache-2.0
"""The Markdown of a page's first blocks, while the VLM reads the others (decision 0228).

A block is settled once all that its Markdown is written from is there: its own text; of a display formula that its
number is written into, the number behind it; of a table, the texts in its figures. Nothing else of PaddleX's page looks
ahead: blocks are merged as pictures, before the VLM reads them, and titles get their levels from their own numbering.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from paddlex.inference.pipelines.layout_parsing.utils import construct_img_path
from paddlex.inference.pipelines.paddleocr_vl.pipeline import IMAGE_LABELS

from docparser.contract.options import AnswerOptions
from docparser.errors import ParserError
from docparser.vlm.client import Reply
from tests.support.old_page.answers import Answers, plain_block
from tests.support.old_page.block_client import MARK, BlockClient
from tests.support.old_page.page_part import PagePart

FORMULAS, FORMULA_NUMBER = ("display_formula", "formula"), "formula_number"


class EarlyText:
    """Of one page. Belongs to the page's thread, which has nothing else to do while it waits for the VLM."""

    def __init__(
        self, answer: AnswerOptions, write: Callable[[PagePart], str], tell: Callable[[int, str], None]
    ) -> None:
        """``write`` gives a part's Markdown, and raises ParserError; ``tell`` gets the text and where it begins in the
        page's Markdown, in characters."""
        self._answer, self._write, self._tell = answer, write, tell
        self._page: Answers | None = None
        self._next = 0  # the first block that is not told of
        self._told = 0  # characters

    def laid_out(self, page: Answers, asked: list[int], settings: dict[str, Any], width: int) -> None:
        """The page's blocks, before the VLM is asked: ``page`` has no texts yet. ``asked``: the blocks that the VLM
        reads, by their numbers, in the order of its calls."""
        self._page, self._asked, self._settings, self._width = page, asked, settings, width
        self._figures = [self._figures_in(number) for number in range(len(page.blocks))]
        self._needs = [self._needs_of(number) & set(asked) for number in range(len(page.blocks))]

    def answered(self, replies: list[Reply | None]) -> None:
        """Tell what is settled; ``replies`` in the order of the calls, None for those that are not there yet. As long
        as the VLM has read no block, the page may still become an error with a status of its own. Once all are there,
        the whole page comes at once."""
        page = self._page
        if page is None or not any(reply and (reply.note is None or reply.note.has_text) for reply in replies):
            return
        if sum(reply is not None for reply in replies) == len(self._asked):
            return
        texts = {number: MARK.sub("", reply.text) for number, reply in zip(self._asked, replies) if reply is not None}
        begin = end = self._next
        while end < len(page.blocks) and self._needs[end] <= texts.keys():
            end += 1
        if begin == end:
            return
        try:
            text = self._write(self._part(page, begin, end, texts))
        except ParserError:
            self._page = None  # reading the whole page says what is wrong
            return
        self._next = end
        if text:
            self._tell(self._told, text)
            self._told += len(text)

    def _part(self, page: Answers, begin: int, end: int, texts: dict[int, str]) -> PagePart:
        numbers = sorted(set(range(begin, end)).union(*self._figures[begin:end]))
        place = {number: at for at, number in enumerate(numbers)}
        answers = Answers(
            [page.blocks[number] for number in numbers],
            {place[number]: texts[number] for number in numbers if number in texts},
            {place[number]: page.figures[number] for number in numbers if number in texts},
            page.dropped,
            page.pictured,
        )
        return PagePart(answers, self._settings, self._width, self._told == 0, self._answer)

    def _needs_of(self, number: int) -> set[int]:
        assert self._page is not None, "laid_out has just set it"
        needs, follows = {number} | self._figures[number], self._page.blocks[number + 1 : number + 2]
        if (
            self._answer.formula_numbers
            and self._page.blocks[number]["label"] in FORMULAS
            and any(block["label"] == FORMULA_NUMBER for block in follows)
        ):
            needs.add(number + 1)
        return needs

    def _figures_in(self, number: int) -> set[int]:
        """The blocks of the figures in a table. They are not written where they stand."""
        assert self._page is not None, "laid_out has just set it"
        paths = set(self._page.figures.get(number, {}).values()) & self._page.dropped
        return {
            other
            for other, block in enumerate(self._page.blocks if paths else ())
            if block["label"] in self._page.pictured and construct_img_path(block["label"], block["box"]) in paths
        }


class LayoutTap:
    """Tells the EarlyText of this thread's page, if it has one, of the page's layout. Stands in for two methods of
    PaddleX's pipeline, which has no other place between the layout and the calls of the VLM."""

    def __init__(self, pipeline: Any, client: BlockClient) -> None:
        self._client = client
        self._kept = threading.local()
        self._settings, pipeline.get_model_settings = pipeline.get_model_settings, self._keep_settings
        self._prepare = pipeline._paddleocr_vl_prepare_page_serial_benchmarked
        pipeline._paddleocr_vl_prepare_page_serial_benchmarked = self._tell_layout

    def _keep_settings(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        self._kept.settings = settings = self._settings(*args, **kwargs)
        return settings

    def _tell_layout(self, payload: tuple) -> tuple:
        prepared = self._prepare(payload)
        if isinstance(early := self._client.early, EarlyText):
            (_, image, _, _, config), (_, blocks, questions, _, dropped) = payload, prepared
            calls: dict[tuple, list[int]] = {}  # PaddleX asks for those with the same bounds of pixels together
            for _, number, _, _, pixels, _ in questions:
                calls.setdefault(pixels, []).append(number)
            figures = {number: figures for _, number, _, _, _, figures in questions}
            pictured = [*IMAGE_LABELS, "seal", *(() if config["use_chart_recognition"] else ("chart",))]
            page = Answers([plain_block(block) for block in blocks], {}, figures, set(dropped), pictured)
            asked = [number for numbers in calls.values() for number in numbers]
            early.laid_out(page, asked, dict(self._kept.settings), image.shape[1])
        return prepared
