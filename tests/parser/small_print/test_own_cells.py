# SPDX-License-Identifier: Apache-2.0
"""A table of a PDF that carries its text: the grid from the picture, the cells from the page."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pypdfium2
import pytest

from docparser.page.question import TABLE_PROMPT, Question
from docparser.small_print.reading import own_table
from tests.support.born_digital import SCALE, own_text, pdf, text

CELLS = (("Name", "Pieces", "Colour"), ("Paper", "twelve", "white"), ("Stone", "seven", "grey"))
LEFT, TOP, WIDE, HIGH = 60, 400, 110, 24  # points
BOX = (110, 190, 810, 360)  # pixels, around the table


def table(to_unicode: Mapping[str, str] | None = None) -> bytes:
    """Three by three cells with rules around each."""
    rules = [b"%d %d %d 1 re f" % (LEFT, TOP - row * HIGH, 3 * WIDE) for row in range(4)]
    rules += [b"%d %d 1 %d re f" % (LEFT + column * WIDE, TOP - 3 * HIGH, 3 * HIGH + 1) for column in range(4)]
    words = [
        text(word, LEFT + column * WIDE + 8, TOP - row * HIGH - 17)
        for row, cells in enumerate(CELLS)
        for column, word in enumerate(cells)
    ]
    return pdf(b"\n".join(rules) + b"\n" + b"".join(words), to_unicode=to_unicode)


def read(data: bytes) -> str | None:
    page = pypdfium2.PdfDocument(data)[0].render(scale=SCALE, prefer_bgrx=False, maybe_alpha=False).to_numpy()
    left, top, right, bottom = BOX
    crop = np.ascontiguousarray(page[top:bottom, left:right, :3])
    own = own_text(data)
    (whole,) = own.blocks([BOX])
    return own_table(Question(crop, TABLE_PROMPT, 1000, 10**6), (left, top), whole, own.blocks)


def test_each_cell_has_its_own_words():
    assert read(table()) == "".join("".join(f"<fcel>{word}" for word in cells) + "<nl>" for cells in CELLS)


SWAPPED = dict(zip("abcdefghijklmnoprstuvwxy", "bcdefghijklmnoprstuvwxya", strict=True))


@pytest.mark.parametrize("data", [table(SWAPPED), pdf(text("no table", 100, 350))], ids=["a lie", "no grid"])
def test_else_the_vlm_is_asked(data: bytes):
    assert read(data) is None
