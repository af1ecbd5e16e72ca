# SPDX-License-Identifier: Apache-2.0
"""A page in Markdown shows its marks to nobody. It is rendered by CommonMark's rules, which a closing `**` between a
Chinese sign and a letter does not fulfil."""

from __future__ import annotations

from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.support.paths import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "models/demo").rglob("*.md")])
COMMONMARK = MarkdownIt("commonmark").enable("table")


def marks_shown(text: str) -> list[str]:
    """The texts of a page, outside of code, in which a reader sees `**`."""
    parts = (part for block in COMMONMARK.parse(text) if block.type == "inline" for part in block.children or ())
    return [part.content for part in parts if part.type == "text" and "**" in part.content]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_bold_text_shows_its_marks(page: Path):
    assert marks_shown(page.read_text(encoding="utf-8")) == []


def test_marks_that_do_not_close_are_found():
    assert marks_shown("**打开：**在没有容器时") == ["**打开：**在没有容器时"]
    assert marks_shown("**打开**：在没有容器时，`**`") == []
