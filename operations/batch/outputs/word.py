# SPDX-License-Identifier: Apache-2.0
"""A document as a Word file, as the service writes it (docparser.convert)."""

from __future__ import annotations

from pathlib import Path

from docparser.convert.word import render

from .. import files
from ..state import DocumentState
from .pages import pages_of


def write(state: DocumentState, path: Path) -> bool:
    with files.whole(path) as part, part.open("wb") as stream:
        render(pages_of(state, lambda lost: f"> Page {lost.page} is missing: {lost.reason}"), stream)
    return True
