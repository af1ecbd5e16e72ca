# SPDX-License-Identifier: Apache-2.0
"""The tables of a document as a workbook, a sheet for each. The service and the batch tool both use this module."""

from __future__ import annotations

import io

from openpyxl import Workbook

from docparser.convert.document import ResultDocument
from docparser.convert.markdown_tables import find_tables
from docparser.convert.xlsx_sheet import write_table


def empty_workbook() -> Workbook:
    """A workbook without the sheet that openpyxl begins with."""
    workbook = Workbook()
    workbook.remove(workbook.active)
    return workbook


def add_page(workbook: Workbook, number: int, text: str) -> None:
    """Add a sheet for every table in the Markdown ``text`` of page ``number``, which counts from 1."""
    for table in find_tables(text):
        write_table(workbook.create_sheet(f"Page {number} Table {len(workbook.sheetnames) + 1}"), table)


def render(document: ResultDocument) -> bytes:
    """A workbook. Where the document has no table, its only sheet says so."""
    workbook = empty_workbook()
    for number, page in enumerate(document.pages, 1):
        add_page(workbook, number, page.text)
    if not workbook.sheetnames:
        workbook.create_sheet("No tables")["A1"] = "No table was found in this document."
    with io.BytesIO() as buffer:
        workbook.save(buffer)
        return buffer.getvalue()
