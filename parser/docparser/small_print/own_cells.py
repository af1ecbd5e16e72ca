# SPDX-License-Identifier: Apache-2.0
"""A table whose cells have the page's own text: its grid is geometry, as for a VLM that reads no tables (``cells``),
and what stands in it the page says itself. No VLM is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from docparser.own_text.doubts import Doubt
from docparser.own_text.page_text import BlockText
from docparser.page.question import Question
from docparser.small_print import bands, grid
from docparser.small_print.cells import otsl_of, plain

Box = tuple[float, float, float, float]  # left, top, right, bottom in pixels of the page
Said = Callable[[Sequence[Box]], list[BlockText]]


def own_table(question: Question, corner: tuple[int, int], whole: BlockText, said: Said) -> str | None:
    """The table in OTSL. ``corner``: left and top of the question's picture on the page; ``whole``: what the page says
    there; ``said``: what it says in boxes. None where no grid is found, where a cell's text is not true, and where the
    cells have not all of the text."""
    found = grid.find(np.asarray(bands.picture_of(question).convert("L")))
    if found is None:
        return None
    left, top = corner
    areas = [cell.area for cell in found.cells]
    cells = said([(left + area.left, top + area.top, left + area.right, top + area.bottom) for area in areas])
    if any(set(cell.doubts) - {Doubt.EMPTY} for cell in cells):
        return None
    if sum(map(_letters, cells)) != _letters(whole):
        return None
    return otsl_of(found, [plain(cell.text) for cell in cells])


def _letters(said: BlockText) -> int:
    return sum(len(word.text) for line in said.lines for word in line.words)
