# SPDX-License-Identifier: Apache-2.0
"""Heads of tables in every format that has them: by the table's own markup, or because the answer says so."""

from __future__ import annotations

import io
import json
import re

import docx
import pytest
from docx.oxml.ns import qn

from docparser.convert.document import ResultDocument
from docparser.convert.names import Format
from tests.support.converted import convert
from tests.support.entries import block_of, entry_of

PLAIN = "<table><tr><td></td><td colspan='2'>1990</td></tr><tr><td>Well</td><td>March</td><td>May</td></tr>" \
        "<tr><td>Mill</td><td>0.04</td><td>0.05</td></tr></table>"  # fmt: skip
MARKED = PLAIN.replace(
    "<tr><td>Well</td><td>March</td><td>May</td></tr>", "<tr><th>Well</th><th>March</th><th>May</th></tr>"
)
MARKED = MARKED.replace("<td colspan='2'>1990</td>", "<th colspan='2'>1990</th>").replace(
    "<td>Mill</td>", "<th>Mill</th>"
)
IN_HEAD = PLAIN.replace("<table>", "<table><thead>").replace("<tr><td>Mill", "</thead><tbody><tr><td>Mill")


def document(content: str, rows: int = 0) -> ResultDocument:
    page = entry_of([block_of("table", content, (10, 10, 90, 60), block_id=0)])
    if rows:
        page["tableHeads"] = [{"block_id": 0, "rows": rows}]
    return ResultDocument.from_answer("wells.pdf", {"layoutParsingResults": [page]})


def html(of: ResultDocument) -> str:
    return convert(of, "html").decode().partition("<body>")[2]


@pytest.mark.parametrize("of", [document(PLAIN, 2), document(IN_HEAD)], ids=["print", "thead"])
def test_html_names_columns(of: ResultDocument):
    said = html(of)
    assert re.findall(r'<th scope="(\w+)"', said) == ["colgroup", "col", "col", "col"]
    assert "<td></td>" in said, "a head without words names nothing"
    assert "<td>Mill</td>" in said


def test_html_names_rows_where_the_markup_does():
    assert re.findall(r'<th scope="(\w+)"[^>]*>(\w+)', html(document(MARKED))) == [
        ("colgroup", "1990"), ("col", "Well"), ("col", "March"), ("col", "May"), ("row", "Mill"),
    ]  # fmt: skip


def test_word_repeats_the_head():
    for of, count in ((document(PLAIN, 2), 2), (document(PLAIN, 1), 1), (document(PLAIN), 0)):
        (table,) = docx.Document(io.BytesIO(convert(of, "docx"))).tables
        assert [bool(row._tr.findall(f".//{qn('w:tblHeader')}")) for row in table.rows] == [
            number < count for number in range(3)
        ]


def test_chunks_have_the_whole_head():
    (chunk,) = map(json.loads, convert(document(PLAIN, 2), "chunks").decode().splitlines())
    assert chunk["text"].splitlines() == [
        "|  | 1990 | 1990 |", "|---|---|---|", "| Well | March | May |", "| Mill | 0.04 | 0.05 |",
    ]  # fmt: skip


@pytest.mark.parametrize("format", ["html", "docx", "xlsx"])
def test_no_head_is_invented(format: Format):
    assert convert(document(PLAIN), format)
    assert "<th" not in html(document(PLAIN))


def test_paddleocrs_markdown_stays():
    assert convert(document(PLAIN, 2), "md").decode().strip() == PLAIN
