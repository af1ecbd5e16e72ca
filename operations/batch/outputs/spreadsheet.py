# SPDX-License-Identifier: Apache-2.0
"""The tables of a document as a spreadsheet, a sheet for each, as the service writes it (docparser.convert)."""

from __future__ import annotations

from pathlib import Path

from docparser.convert.workbook import add_page, empty_workbook

from .. import files
from ..state import DocumentState
from .pages import pages_of


def write(state: DocumentState, path: Path) -> bool:
    """False where the document has no table."""
    workbook = empty_workbook()
    for number, page in enumerate(pages_of(state, lambda lost: ""), 1):
        add_page(workbook, number, page)
    if not workbook.sheetnames:
        return False
    with files.whole(path) as part:
        workbook.save(part)
    return True
