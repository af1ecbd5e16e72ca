# SPDX-License-Identifier: Apache-2.0
"""The tables of a document as a workbook, a sheet each. Cells never become formulas: they are a stranger's."""

from __future__ import annotations

import io
import re

from openpyxl import Workbook
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
from openpyxl.styles import Alignment, Font
from openpyxl.utils import get_column_letter

from docparser.convert.document import Document
from docparser.convert.tables import Table, find_tables

NUMBER = re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d{1,15})(\.\d{1,15})?")
DANGEROUS = ("=", "+", "-", "@", "\t", "\r")
MAX_TEXT = 32_767  # characters of a cell, by Excel's limits
MAX_ROWS, MAX_COLUMNS = 1_048_576, 16_384
MAX_WIDTH = 60


def render(document: Document) -> bytes:
    """A workbook; one that says so if the document has no table."""
    workbook = Workbook()
    workbook.remove(workbook.active)
    tables = find_tables(document)
    for number, table in enumerate(tables, 1):
        _fill(workbook.create_sheet(f"Page {table.page} Table {number}"), table)
    if not tables:
        workbook.create_sheet("No tables")["A1"] = "No table was found in this document."
    with io.BytesIO() as buffer:
        workbook.save(buffer)
        return buffer.getvalue()


def _fill(sheet, table: Table) -> None:
    widths: dict[int, int] = {}
    for cell in table.cells:
        row, column = cell.row + 1, cell.column + 1
        if row + cell.rows > MAX_ROWS or column + cell.columns > MAX_COLUMNS:
            continue
        target = sheet.cell(row, column)
        value = cell_value(cell.text)
        if isinstance(value, str):
            target.data_type = "s"
            target._value = value  # setting `value` would make a formula of what begins with "="
        else:
            target.value = value
        target.alignment = Alignment(wrap_text=True, vertical="top")
        target.font = Font(bold=cell.header)
        if cell.rows > 1 or cell.columns > 1:
            sheet.merge_cells(
                start_row=row, start_column=column, end_row=row + cell.rows - 1, end_column=column + cell.columns - 1
            )
        else:
            widths[column] = max(widths.get(column, 8), min(MAX_WIDTH, len(cell.text) + 2))
    for column, width in widths.items():
        sheet.column_dimensions[get_column_letter(column)].width = width


def cell_value(text: str) -> str | float | int:
    """A number where the text is one that a number does not change; else text that no spreadsheet takes for a formula.

    An apostrophe goes before what begins like one (OWASP, CSV Injection): the type alone would protect this file, but
    not the CSV that someone makes of it.
    """
    text = ILLEGAL_CHARACTERS_RE.sub("", text)[: MAX_TEXT - 1]
    if NUMBER.fullmatch(text) and not re.match(r"[+-]?0\d", text):
        plain = text.replace(",", "")
        return float(plain) if "." in plain else int(plain)
    return "'" + text if text.startswith(DANGEROUS) else text
