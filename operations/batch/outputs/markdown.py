# SPDX-License-Identifier: Apache-2.0
"""Markdown of a whole document, page after page as PaddleOCR's `concatenate_markdown_pages` joins them: an empty line
between two pages, tables that go on on the next page joined (PaddleX 3.7, pipelines/paddleocr_vl/pipeline.py)."""

from __future__ import annotations

from pathlib import Path

from .. import files
from ..state import DocumentState, Trouble
from .pages import pages_of


def write(state: DocumentState, path: Path) -> bool:
    with files.whole(path) as part, part.open("w", encoding="utf-8", errors="backslashreplace") as stream:
        for number, page in enumerate(pages_of(state, lost)):
            stream.write(("\n\n" if number else "") + page.text.strip())
        stream.write("\n")
    return True


def lost(trouble: Trouble) -> str:
    """Stands where a page is missing; an HTML comment, which no reader shows."""
    return f"<!-- page {trouble.page} is missing: {trouble.reason.replace('--', '- -')} -->"
