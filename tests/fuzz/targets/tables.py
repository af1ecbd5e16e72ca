# SPDX-License-Identifier: Apache-2.0
"""Tables: OTSL to HTML (PaddleX), HTML and pipes to cells, cells to a workbook."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable

from openpyxl import load_workbook

from docparser.convert.document import ResultDocument, ResultPage
from docparser.convert.parts import of_markdown, plain_tables
from tests.fuzz.choices import Choices
from tests.fuzz.verdict import Broken
from tests.support.converted import convert

WORDS = (
    *("<table>", "</table>", "<tr>", "</tr>", "<td>", "</td>", "<th>", "<br>", "<td rowspan=200 colspan=200>"),
    *("<tbody>", '<td rowspan="2">', '<td colspan="3">', '<td rowspan="99999999999">', '<td colspan="-1">'),
    *("<td rowspan=²>", "<td", "=1+1", "@SUM(A1)", "12.50", "1,234", "007", "-0", "1e308", "9" * 400, "\x0b", "|"),
    *("|---|---|\n", "| a | b |\n", "$x^2$", "&amp;", "&#0;", "&#xd800;", "<td><table><tr><td>", "#N/A"),
    *("<td rowspan=200>", "\n\n", "x"),
)
OTSL = (
    *("<fcel>", "<ecel>", "<lcel>", "<ucel>", "<xcel>", "<nl>", "<ched>", "<rhed>", "<srow>", "a", "1", "<b>", "&"),
    " ",
)
MOST_CELLS = 200_000  # of all tables of one text: as many as LONGEST characters could ask for


def target(data: bytes) -> None:
    choices = Choices(data)
    kind = choices.below(4)
    if kind == 0:
        text = choices.text(OTSL, longest=8000)
        check(otsl_reader()(text))
    elif kind == 1:
        check(choices.text(WORDS))
    else:
        check("<table><tr>" + choices.text(WORDS, longest=8000))
        if kind == 3:
            workbook(choices.text(WORDS, longest=2000))


@functools.cache
def otsl_reader() -> Callable[[str], str]:
    """What turns the VLM's answer for a table into HTML. The import of PaddleX takes seconds."""
    from docparser.page.blocks import makes_table
    from docparser.page.paddlex_private import convert_otsl_to_html

    return lambda otsl: convert_otsl_to_html(otsl) if makes_table(otsl) else ""


def check(text: str) -> None:
    """No two cells of the Markdown's tables overlap; none reaches out of its table."""
    tables = list(plain_tables(of_markdown(text)))
    if sum(cell.rows * cell.columns for table in tables for cell in table.cells) > MOST_CELLS:
        raise Broken("spans cover a bounded area")
    for table in tables:
        covered: set[tuple[int, int]] = set()
        for cell in table.cells:
            if cell.rows < 1 or cell.columns < 1 or cell.row < 0 or cell.column < 0:
                raise Broken("a cell covers something")
            places = {
                (row, column)
                for row in range(cell.row, cell.row + cell.rows)
                for column in range(cell.column, cell.column + cell.columns)
            }
            if places & covered:
                raise Broken("two cells overlap")
            covered |= places


def workbook(text: str) -> None:
    """A workbook that can be read again, in which no text computes."""
    document = ResultDocument("tables", [ResultPage(text, {})], {})
    written = convert(document, "xlsx")
    for sheet in load_workbook(io.BytesIO(written)):
        for row in sheet.iter_rows():
            for cell in row:
                if cell.data_type == "f":
                    raise Broken("a cell of the workbook is a formula")


def seeds() -> list[bytes]:
    otsl_reader()
    otsl = [b"\0\x10" + bytes(range(number, number + 40)) for number in (0, 7, 30)]
    return otsl + [bytes([kind, 20]) + bytes(range(0, 40)) for kind in (1, 2, 3)]
