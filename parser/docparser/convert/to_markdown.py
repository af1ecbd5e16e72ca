# SPDX-License-Identifier: Apache-2.0
"""Pages as Markdown: PaddleOCR's with its headings as printed and at their levels, or written anew with every printed
sign escaped.

PaddleOCR's escapes nothing. Rules of the other: CommonMark 0.31, and of GitHub's flavour tables, strikethrough and
formulas between dollars.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable

from docparser.convert.document import ResultPage
from docparser.convert.formulas import MARK, Formulas
from docparser.convert.parts import CAPTIONS, Part
from docparser.convert.to_html import picture_html, table_html
from docparser.outline import TITLES, as_printed

BACKSLASH = r"\\"  # in a replacement
ANYWHERE = re.compile(r"[\\`*_\[\]<>&~|$]")
# Of a heading, an item of a list, the line under a heading; and a heading's end.
BEGINS = re.compile(r"\A(?:(?=[#+=-])|[0-9]{1,9}(?=[.)]))")
# A picture as PaddleX writes it: in a line of its own with and without prettifyMarkdown, and in a table's cell.
PICTURE_MARK = re.compile(
    r"""<div\b[^<>]*>\s*<img\b[^<>]*?\bsrc="([^"<>]*)"[^<>]*>\s*</div> | <img\b[^<>]*?\bsrc="([^"<>]*)"[^<>]*>
    | !\[[^\[\]]*\]\(([^()\s]*)\)""",
    re.VERBOSE,
)
ENDS = re.compile(r"(?<= )(?=#+\Z)")


def with_printed_headings(page: ResultPage) -> str:
    """PaddleOCR's Markdown with headings as printed and at the levels of the document's outline. Its title where it is
    printed again is no heading."""
    return as_printed(page.text, ((part.text, part.level) for part in page.parts if part.label in TITLES))


def with_pictures(page: ResultPage, shown: Callable[[str], str]) -> str:
    """The same with ``shown(path)`` in place of each of the page's pictures."""

    def words(mark: re.Match[str]) -> str:
        path = html.unescape(mark[1] or mark[2] or mark[3] or "")
        return shown(path) if path in page.pictures else mark[0]

    return PICTURE_MARK.sub(words, with_printed_headings(page)).strip()


def escaped_markdown(page: ResultPage) -> str:
    """Blocks are paragraphs, and a block's lines too; code is fenced. Tables are HTML, as PaddleOCR writes them."""
    return "\n\n".join(filter(None, map(_part, page.parts)))


def _part(part: Part) -> str:
    if part.markdown:  # the VLM was asked for it
        return part.text
    formulas = Formulas(exact=part.exact)
    if part.table is not None:
        table = table_html(part.table, formulas)
        return MARK.sub(lambda mark: html.escape(formulas.put_back_markdown(mark[0]), quote=False), table)
    if part.picture:
        return picture_html(part)
    text = formulas.take_out(part.text)
    if part.label == "algorithm" and text == part.text:
        return fenced(text)
    lines = [escaped(line.strip()) for line in text.split("\n") if line.strip()]
    if part.label == "algorithm":  # its formulas would be signs in a fence; so it keeps its depths by no-break spaces
        depths = [len(line) - len(line.lstrip()) for line in text.expandtabs(4).split("\n") if line.strip()]
        lines = ["&nbsp;" * depth + line for depth, line in zip(depths, lines, strict=True)]
    elif part.level:
        lines = [f"{'#' * part.level} {ENDS.sub(BACKSLASH, ' '.join(lines), count=1)}"]
    elif part.label in CAPTIONS:
        lines = [" ".join(lines)]
    return formulas.put_back_markdown("\n\n".join(lines))


def fenced(code: str) -> str:
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", code))])
    return f"{fence}\n{code}\n{fence}"


def escaped(line: str) -> str:
    """One line without blanks at its ends."""
    return BEGINS.sub(rf"\g<0>{BACKSLASH}", ANYWHERE.sub(rf"{BACKSLASH}\g<0>", line), count=1)
