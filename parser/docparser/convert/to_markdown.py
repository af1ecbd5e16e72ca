# SPDX-License-Identifier: Apache-2.0
"""Pages as Markdown in which every sign that was printed is escaped, so that readers of Markdown show it.

The answer's own Markdown is PaddleOCR's, which escapes nothing. Rules: CommonMark 0.31, and of GitHub's flavour
tables, strikethrough and formulas between dollars.
"""

from __future__ import annotations

import re

from docparser.convert.document import ResultPage
from docparser.convert.formulas import Formulas
from docparser.convert.parts import CAPTIONS, Part
from docparser.convert.to_html import picture_html, table_html

BACKSLASH = r"\\"  # in a replacement
ANYWHERE = re.compile(r"[\\`*_\[\]<>&~|$]")
# Of a heading, an item of a list, the line under a heading; and a heading's end.
BEGINS = re.compile(r"\A(?:(?=[#+=-])|[0-9]{1,9}(?=[.)]))")
ENDS = re.compile(r"(?<= )(?=#+\Z)")


def page_markdown(page: ResultPage) -> str:
    """Blocks are paragraphs, and a block's lines too. Tables are HTML, as PaddleOCR writes them."""
    return "\n\n".join(filter(None, map(_part, page.parts)))


def _part(part: Part) -> str:
    if part.markdown:  # the VLM was asked for it
        return part.text
    formulas = Formulas()
    if part.table is not None:
        return formulas.put_back_markdown(table_html(part.table, formulas))
    if part.picture:
        return picture_html(part)
    text = formulas.take_out(part.text)
    lines = [escaped(line.strip()) for line in text.split("\n") if line.strip()]
    if part.level:
        lines = [f"{'#' * part.level} {ENDS.sub(BACKSLASH, ' '.join(lines), count=1)}"]
    elif part.label in CAPTIONS:
        lines = [" ".join(lines)]
    return formulas.put_back_markdown("\n\n".join(lines))


def escaped(line: str) -> str:
    """One line without blanks at its ends."""
    return BEGINS.sub(rf"\g<0>{BACKSLASH}", ANYWHERE.sub(rf"{BACKSLASH}\g<0>", line), count=1)
