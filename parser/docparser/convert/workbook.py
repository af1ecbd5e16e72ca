# SPDX-License-Identifier: Apache-2.0
"""The tables of a document as a workbook, a sheet for each. The service and the batch tool both use this module."""

from __future__ import annotations

import re
from typing import BinaryIO

from openpyxl import Workbook
from openpyxl.cell.cell import Cell as SheetCell
from openpyxl.styles import Alignment, Font
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.cell_range import CellRange
from openpyxl.worksheet.worksheet import Worksheet

from docparser.convert.document import ResultDocument, ResultPage
from docparser.convert.names import FORBIDDEN, writable
from docparser.convert.parts import plain_tables
from docparser.html_tables import Table

# Digits, in groups of three or not, and a decimal point. "007" and "+5" are texts: a number would not show them.
NUMBER = re.compile(r"-?(0|[1-9][0-9]*|[1-9][0-9]{0,2}(,[0-9]{3})+)(\.[0-9]+)?")
MAX_DIGITS = 15  # Excel keeps no more of a number
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n")
LIKE_ESCAPES = re.compile(r"_(?=x[0-9A-Fa-f]{4}_)")  # programs read _x0041_ as "A" (ECMA-376 part 1, 22.9.2.19)
MAX_TEXT = 32_767  # characters of a cell, by Excel's limits
MAX_ROWS, MAX_COLUMNS = 1_048_576, 16_384
MIN_WIDTH, MAX_WIDTH = 8, 60  # of a column, in characters
# Made once: a new one for each cell took as long as the rest of the cell.
AT_TOP, PLAIN, BOLD = Alignment(wrap_text=True, vertical="top"), Font(bold=False), Font(bold=True)


def write_table(sheet: Worksheet, table: Table) -> None:
    """Fill ``sheet`` from A1: merged cells where a cell covers several, headers in bold, columns as wide as their text.

    Cells beyond Excel's last row or column are left out.
    """
    widths: dict[int, int] = {}
    for cell in table.cells:
        row, column = cell.row + 1, cell.column + 1
        last_row, last_column = cell.row + cell.rows, cell.column + cell.columns
        if last_row > MAX_ROWS or last_column > MAX_COLUMNS:
            continue
        target = sheet.cell(row, column)
        write_cell(target, cell.text)
        target.alignment = AT_TOP
        target.font = BOLD if cell.header else PLAIN
        if cell.rows > 1 or cell.columns > 1:
            # `merge_cells` would also make an object of every place that the cell covers, and compare all ranges.
            merged = CellRange(min_row=row, min_col=column, max_row=last_row, max_col=last_column)
            sheet.merged_cells.ranges.add(merged)
        else:
            widths[column] = max(widths.get(column, MIN_WIDTH), min(MAX_WIDTH, len(cell.text) + 2))
    for column, width in widths.items():
        sheet.column_dimensions[get_column_letter(column)].width = width


def write_cell(target: SheetCell, text: str) -> None:
    """Write ``text`` into a cell that shows it as it was printed: as a number where that is possible, else as text.

    A number gets a format with the decimals and the thousands separators of the text: ``12.50`` and ``1,234`` can be
    summed and still look like that. A comma before three digits counts as a thousands separator, as in English and
    Chinese documents; any other comma makes a text. So do leading zeros, a plus sign, and more digits than Excel keeps.

    A text never becomes a formula, whatever it begins with, because the cell's type says that it is a text. A text that
    begins like a formula also gets ``quotePrefix``. That is what Excel stores when a user types an apostrophe first:
    the cell shows the text unchanged, and stays a text when someone edits it. An apostrophe written into the text would
    be seen in the cell and in everything that reads the file.
    """
    text = FORBIDDEN.sub("", text)[:MAX_TEXT]
    match = NUMBER.fullmatch(text)
    if match and sum(map(str.isdigit, text)) <= MAX_DIGITS and (not text.startswith("-") or re.search("[1-9]", text)):
        decimals = len(match[3] or ".") - 1
        plain = text.replace(",", "")
        target.value = float(plain) if decimals else int(plain)
        target.number_format = ("#,##0" if match[2] else "0") + ("." + "0" * decimals if decimals else "")
        return
    target.value = LIKE_ESCAPES.sub("_x005F_", text)
    target.data_type = "s"  # after the value: openpyxl takes "=..." for a formula and "#N/A" for an error
    target.quotePrefix = text.startswith(FORMULA_SIGNS)


def empty_workbook(title: str) -> Workbook:
    """A workbook without the sheet that openpyxl begins with, and without its name for the author's."""
    workbook = Workbook()
    workbook.properties.creator, workbook.properties.title = None, writable(title)
    workbook.remove(workbook.active)
    return workbook


def add_page(workbook: Workbook, number: int, page: ResultPage) -> None:
    """Add a sheet for every table of page ``number``, which counts from 1."""
    for table in plain_tables(page.parts):
        write_table(workbook.create_sheet(f"Page {number} Table {len(workbook.sheetnames) + 1}"), table)


def render(document: ResultDocument, sink: BinaryIO) -> None:
    """Write a workbook. Where the document has no table, its only sheet says so."""
    workbook = empty_workbook(document.stem)
    for number, page in document.numbered():
        add_page(workbook, number, page)
    if not workbook.sheetnames:
        workbook.create_sheet("No tables")["A1"] = "No table was found in this document."
    workbook.save(sink)
