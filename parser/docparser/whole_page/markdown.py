# SPDX-License-Identifier: Apache-2.0
"""The Markdown of a page in blocks: titles, tables, formulas, code, and paragraphs of text. Linear in its length."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docparser.whole_page.block import Block, Box

# What is more than paragraphs, beginning with a line of its own but for tables. What has no end goes on to the text's.
PIECES = re.compile(
    r"""(?P<table> <table\b (?:.*?</table>|.*) )
    | ^(?P<fence> (?P<mark>```|~~~) (?:.*?^(?P=mark)[ \t]*$|.*) )
    | ^(?P<formula> \$\$ (?:.*?\$\$|.*) | \\\[ (?:.*?\\\]|.*) )
    | ^(?P<heading> \#{1,6} [ \t]+ [^\n]+ )
    | ^(?P<pipes> \|[^\n]*\n \|[ \t:|-]+ (?:\n\|[^\n]*)* )""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
BLANK = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
OUTER = re.compile(r"```(?:markdown|md|html|latex)[ \t]*\n(.*?)\n?```", re.DOTALL)
SIGNS = ("$", "\\[", "\\(", "\\begin")


def blocks_of(markdown: str, page: Box) -> list[Block]:
    """In reading order. Each has the box of the page, since Markdown says no places."""
    return list(_blocks(_bare(markdown), page))


def formula_of(latex: str, page: Box) -> list[Block]:
    """The answer of a page that is one formula, whose signs it may leave out."""
    text = _bare(latex)
    if not text:
        return []
    return [Block("display_formula", text if text.startswith(SIGNS) else f"$${text}$$", page)]


def _bare(answer: str) -> str:
    """Without the fence that models put around a whole answer."""
    text = answer.strip()
    fenced = OUTER.fullmatch(text)
    return fenced[1].strip() if fenced else text


def _blocks(markdown: str, page: Box) -> Iterator[Block]:
    at = 0
    for piece in PIECES.finditer(markdown):
        yield from _paragraphs(markdown[at : piece.start()], page)
        at = piece.end()
        if heading := piece["heading"]:
            level = len(heading) - len(heading.lstrip("#"))
            title = heading.strip("# \t").strip()
            if title:
                yield (
                    Block("doc_title", title, page) if level == 1 else Block("paragraph_title", title, page, level - 1)
                )
        elif piece["table"] or piece["pipes"]:
            yield Block("table", piece[0].strip(), page)
        else:
            yield Block("display_formula" if piece["formula"] else "algorithm", piece[0].strip(), page)
    yield from _paragraphs(markdown[at:], page)


def _paragraphs(text: str, page: Box) -> Iterator[Block]:
    for paragraph in BLANK.split(text):
        if paragraph.strip():
            yield Block("text", paragraph.strip("\n").rstrip(), page)
