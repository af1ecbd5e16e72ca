# SPDX-License-Identifier: Apache-2.0
"""Pages in Markdown as a reader sees them, by CommonMark's rules: no text shows its marks, which a closing `**` between
a Chinese sign and a letter does, and each link leads to a file and a heading that are there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.support.paths import ROOT

OURS = {"common", "config", "deploy", "model_code", "models", "operations", "parser", "scripts", "tests", "workshop"}
READMES = [path for folder in sorted(OURS) for path in (ROOT / folder).rglob("README.md")]
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *READMES})
COMMONMARK = MarkdownIt("commonmark").enable("table")


def parts(text: str) -> list[Token]:
    """Texts, pieces of code and links of a page."""
    return [part for block in COMMONMARK.parse(text) if block.type == "inline" for part in block.children or ()]


def marks_shown(text: str) -> list[str]:
    """The texts of a page, outside of code, in which a reader sees `**`."""
    return [part.content for part in parts(text) if part.type == "text" and "**" in part.content]


@cache
def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub gives them, and those that stand in its HTML."""
    text = page.read_text(encoding="utf-8")
    blocks = COMMONMARK.parse(text)
    titles = [blocks[at + 1] for at, block in enumerate(blocks) if block.type == "heading_open"]
    plain = ("".join(part.content for part in title.children or ()) for title in titles)
    slugs = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in plain}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_bold_text_shows_its_marks(page: Path):
    assert marks_shown(page.read_text(encoding="utf-8")) == []


def test_marks_that_do_not_close_are_found():
    assert marks_shown("**打开：**在没有容器时") == ["**打开：**在没有容器时"]
    assert marks_shown("**打开**：在没有容器时，`**`") == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_leads_to_a_file_and_a_heading(page: Path):
    missing = []
    for part in parts(page.read_text(encoding="utf-8")):
        target, _, anchor = unquote(str(part.attrs.get("href", part.attrs.get("src", "")))).partition("#")
        if ":" in target or not (target or anchor):
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            missing.append(f"{target}#{anchor}")
    assert missing == []
