# SPDX-License-Identifier: Apache-2.0
"""Where pictures stand in a page's Markdown, and other words in their places."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

from docparser.convert.document import ResultPage

# As PaddleX writes them: in a line of its own with and without prettifyMarkdown, and in a table's cell.
MARK = re.compile(
    r"""<div\b[^<>]*>\s*<img\b[^<>]*?\bsrc="([^"<>]*)"[^<>]*>\s*</div> | <img\b[^<>]*?\bsrc="([^"<>]*)"[^<>]*>
    | !\[[^\[\]]*\]\(([^()\s]*)\)""",
    re.VERBOSE,
)


def replaced(page: ResultPage, shown: Callable[[str], str]) -> str:
    """The page's Markdown with ``shown(path)`` in place of each of its pictures."""

    def words(mark: re.Match[str]) -> str:
        path = html.unescape(mark[1] or mark[2] or mark[3] or "")
        return shown(path) if path in page.pictures else mark[0]

    return MARK.sub(words, page.text).strip()
