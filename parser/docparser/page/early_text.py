# SPDX-License-Identifier: Apache-2.0
"""The Markdown of a page's first blocks, while the VLM reads the others (decision 0228).

A block is settled once all that its Markdown is written from is there: its own text; of a display formula that its
number is written into, the number behind it; of a table, the texts in its figures. Nothing else of PaddleX's page looks
ahead: blocks are merged as pictures, before the VLM reads them, and titles get their levels from their own numbering.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from docparser.contract.schemas import OutputOptions
from docparser.errors import ParserError
from docparser.outline import TITLES, as_printed
from docparser.page.blocks import FORMULAS, Blocks, BlockTexts
from docparser.page.paddlex_private import PaddleOCRVLBlock, PaddleOCRVLResult, markdown_of_blocks
from docparser.page.run import Replies

FORMULA_NUMBER = "formula_number"
BEFORE = "before"  # a label of our own: what stands before the part, so that PaddleX parts the two


@dataclasses.dataclass(frozen=True)
class PagePart:
    """Some blocks of a page, one behind the other. ``texts`` of the part's blocks; of the figures in its tables too,
    which are not written themselves. ``settings`` and ``width`` (pixels) are the page's. ``first``: no text stands
    before it."""

    texts: BlockTexts
    settings: dict[str, Any]
    width: int
    first: bool
    options: OutputOptions

    def markdown(self) -> str:
        """The part's share of the page's Markdown with headings as printed, the gap before it included. Computes over
        what the VLM wrote, so it belongs into a child process."""
        blocks = self.texts.read()[0]
        if not self.first:
            blocks = [PaddleOCRVLBlock(BEFORE, (0, 0, 0, 0)), *blocks]
        text = markdown_of_blocks(
            PaddleOCRVLResult(
                {"input_path": None, "page_index": None, "model_settings": self.settings, "width": self.width}
            ),
            blocks,
            {BEFORE: lambda block: BEFORE},
            pretty=self.options.prettifyMarkdown,
            formula_numbers=self.options.showFormulaNumber,
        )
        text = text if self.first else text.removeprefix(BEFORE)
        formatted = self.settings["format_block_content"]  # then the whole page has no titles as printed
        return as_printed(text, ((block.content, None) for block in blocks if block.label in TITLES and not formatted))


class EarlyText:
    """Of one page. Belongs to the page's thread, which has nothing else to do while it waits for the VLM."""

    def __init__(
        self, options: OutputOptions, write: Callable[[PagePart], str], tell: Callable[[int, str], None]
    ) -> None:
        """``write`` gives a part's Markdown, and raises ParserError; ``tell`` gets the text and where it begins in the
        page's Markdown, in characters."""
        self._options, self._write, self._tell = options, write, tell
        self._page: BlockTexts | None = None
        self._next = 0  # the first block that is not told of
        self._told = 0  # characters

    def laid_out(self, blocks: Blocks, exact: frozenset[int], settings: dict[str, Any], width: int) -> None:
        self._page, self._asked, self._settings, self._width = (
            BlockTexts.of(blocks, {}, exact),
            len(blocks.questions),
            settings,
            width,
        )
        self._figures = [_figures_in(number, blocks) for number in range(len(blocks.cut))]
        self._needs = [self._needs_of(number, blocks) & blocks.questions.keys() for number in range(len(blocks.cut))]

    def answered(self, replies: Replies) -> None:
        """Tell what is settled. As long as the VLM has read no block, the page may still become an error with a status
        of its own. Once all are there, the whole page comes at once."""
        page = self._page
        if page is None or not any(reply.note is None or reply.note.has_text for reply in replies.values()):
            return
        if len(replies) == self._asked:
            return
        begin = end = self._next
        while end < len(page.blocks) and self._needs[end] <= replies.keys():
            end += 1
        if begin == end:
            return
        numbers = sorted(set(range(begin, end)).union(*self._figures[begin:end]))
        texts = {number: reply.text for number, reply in replies.items()}
        part = PagePart(page.part(numbers, texts), self._settings, self._width, self._told == 0, self._options)
        try:
            text = self._write(part)
        except ParserError:
            self._page = None  # reading the whole page says what is wrong
            return
        self._next = end
        if text:
            self._tell(self._told, text)
            self._told += len(text)

    def _needs_of(self, number: int, blocks: Blocks) -> set[int]:
        needs, follows = {number} | self._figures[number], blocks.cut[number + 1 : number + 2]
        if (
            self._options.showFormulaNumber
            and blocks.cut[number]["label"] in FORMULAS
            and any(block["label"] == FORMULA_NUMBER for block in follows)
        ):
            needs.add(number + 1)
        return needs


def _figures_in(number: int, blocks: Blocks) -> set[int]:
    """The blocks of the figures in a table. They are not written where they stand."""
    paths = blocks.figures.get(number, {}).values()
    return {other for other in blocks.inside if blocks.paths[other] in paths}
