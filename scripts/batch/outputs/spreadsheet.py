# SPDX-License-Identifier: Apache-2.0
"""The tables of a document as a spreadsheet, a sheet for each."""

from __future__ import annotations

import re
from pathlib import Path

from openpyxl import Workbook
from openpyxl.cell.cell import Cell as SheetCell
from openpyxl.styles import Alignment
from openpyxl.worksheet.worksheet import Worksheet

from .. import files
from ..state import DocumentState, Trouble
from .blocks import blocks, plain
from .tables import Table, read_tables

LONGEST_CELL = 32767  # Excel's limit
# A number that a spreadsheet can calculate with; longer ones, and codes like 007, are texts.
NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,9})?")
# A text that a spreadsheet program would take for a formula when it is edited, or exported as CSV and opened again.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def write(state: DocumentState, path: Path) -> bool:
    """False where the document has no table."""
    book = Workbook()
    book.remove(book.active)
    for record in state.records():
        if isinstance(record, Trouble):
            continue
        tables = [table for block in blocks(record) if block.label == "table" for table in read_tables(block.content)]
        for number, table in enumerate(tables, 1):
            fill(book.create_sheet(f"page {record['page']}, table {number}"), table)
    if not book.sheetnames:
        return False
    with files.whole(path) as part:
        book.save(part)
    return True


def fill(sheet: Worksheet, table: Table) -> None:
    for cell in table.cells:
        target = sheet.cell(cell.row + 1, cell.column + 1)
        put(target, cell.text)
        target.alignment = Alignment(wrap_text=True, vertical="top")
        if cell.rows > 1 or cell.columns > 1:
            sheet.merge_cells(
                start_row=cell.row + 1, start_column=cell.column + 1,
                end_row=cell.row + cell.rows, end_column=cell.column + cell.columns,
            )  # fmt: skip


def put(target: SheetCell, text: str) -> None:
    """A number as a number, with the digits that were printed; anything else as text, never as a formula."""
    text = plain(text)[:LONGEST_CELL]
    if NUMBER.fullmatch(text):
        decimals = len(text.partition(".")[2])
        target.value = float(text) if decimals else int(text)
        target.number_format = "0." + "0" * decimals if decimals else "0"
        return
    target.value = text
    target.data_type = "s"
    # The apostrophe that one would type before such a text in a spreadsheet program.
    target.quotePrefix = text.startswith(FORMULA)
