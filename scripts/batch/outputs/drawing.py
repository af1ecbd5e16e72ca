# SPDX-License-Identifier: Apache-2.0
"""The pages with their layout boxes as one PDF: pages of one PDF each are joined, a few at a time, since a page that
was added stays in memory and its file open until the whole is saved."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pikepdf

from .. import files
from ..state import DocumentState

AT_A_TIME = 50


def write(state: DocumentState, path: Path) -> bool:
    """False where no page was drawn."""
    pages = [state.page_file(page, ".pdf") for page in range(1, (state.count or 0) + 1)]
    pages = [page for page in pages if page.is_file()]
    if not pages:
        return False
    with tempfile.TemporaryDirectory(dir=state.pages_folder.parent) as folder:
        parts = []
        for start in range(0, len(pages), AT_A_TIME):
            parts.append(Path(folder) / f"{start}.pdf")
            join(pages[start : start + AT_A_TIME], parts[-1])
        with files.whole(path) as part:
            join(parts, part)
    return True


def join(sources: Iterable[Path], target: Path) -> None:
    with ExitStack() as opened, pikepdf.new() as whole:
        for source in sources:
            # What is copied is read from its source when `whole` is saved.
            whole.pages.extend(opened.enter_context(pikepdf.open(source)).pages)
        whole.save(target)
