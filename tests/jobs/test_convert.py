# SPDX-License-Identifier: Apache-2.0
"""Other formats of a result: strangers' Markdown stays harmless, tables become cells, formulas MathML."""

from __future__ import annotations

import io
import zipfile

import openpyxl
import pytest
from docparser.convert import to_html, to_xlsx
from docparser.convert.document import Document, Page, stem
from docparser.convert.formats import convert, safe_path
from docparser.convert.to_xlsx import cell_value

HOSTILE = """<script>alert(1)</script>
<img src="x" onerror="alert(1)"> <img src="https://evil.example/spy.png"> <svg onload="alert(1)"><script>1</script></svg>
<a href="javascript:alert(1)">a</a> [b](javascript:alert(1)) <iframe src="https://evil.example"></iframe>
<div style="background: url(https://evil.example)">c</div> <math><mtext><style><img src=x onerror=alert(1)></style></mtext></math>
$\\text{<img src=x onerror=alert(1)>}$ <form action="https://evil.example"><input></form><meta http-equiv="refresh">
"""


def document(text: str, **pictures: bytes) -> Document:
    return Document("d", [Page(text, {f"imgs/{name}.jpg": data for name, data in pictures.items()})], {})


def test_hostile_markdown_is_harmless_as_html():
    page = to_html.page_html(document(HOSTILE).pages[0]).lower()
    for word in (
        "<script",
        'onerror="',
        "onload",
        'href="javascript:',
        "<iframe",
        "evil.example",
        "<svg",
        "<form",
        "<meta",
        "<style",
    ):
        assert word not in page, word
    assert "&lt;img" in page  # the formula's text is text


def test_formulas_become_mathml_and_prices_stay():
    page = to_html.page_html(document("costs $5 and $10, $ x^{2} $\n\n$$\\frac{a}{b}$$\n").pages[0])
    assert "costs $5 and $10" in page and page.count("<math") == 2 and "<mfrac>" in page


def test_pictures_of_the_page_are_inside_the_html():
    page = to_html.page_html(document('<img src="imgs/a.jpg" alt="A">', a=b"picture").pages[0])
    assert '<img src="data:image/jpeg;base64,cGljdHVyZQ==" alt="A">' in page


def test_tables_become_cells():
    text = "<table><tr><td rowspan=2>a</td><td colspan='2'>b</td></tr><tr><td>1,234.5</td><td>007</td></tr></table>\n\n"
    text += "| x | y |\n|---|---|\n| -3 | $n^2$ |\n"
    book = openpyxl.load_workbook(io.BytesIO(to_xlsx.render(document(text))))
    first, second = book.worksheets
    assert [[cell.value for cell in row] for row in first.rows] == [["a", "b", None], [None, 1234.5, "007"]]
    assert {str(merged) for merged in first.merged_cells.ranges} == {"A1:A2", "B1:C1"}
    assert [[cell.value for cell in row] for row in second.rows] == [["x", "y"], [-3, "n^2"]]
    assert openpyxl.load_workbook(io.BytesIO(to_xlsx.render(document("none")))).worksheets[0].title == "No tables"


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"])
def test_cells_never_become_formulas(text):
    assert cell_value(text) == "'" + text
    table = f"<table><tr><td>{text}</td></tr></table>"
    (cell,) = next(openpyxl.load_workbook(io.BytesIO(to_xlsx.render(document(table)))).worksheets[0].rows)
    assert cell.data_type == "s" and not str(cell.value).startswith(("=", "+", "-", "@"))


def test_archives_hold_only_what_lies_below_their_root():
    pages = [Page("t", {"imgs/a.jpg": b"1", "../../etc/b.jpg": b"2", "/c.jpg": b"3"})]
    names = zipfile.ZipFile(io.BytesIO(convert(Document("d", pages, {}), "zip"))).namelist()
    assert names == ["d.md", "d.json", "d.html", "imgs/a.jpg"]
    assert safe_path("a/../b") == ""


@pytest.mark.parametrize(
    "name, expected", [("../../x.pdf", "x"), ("..", "document"), ("", "document"), ("ä b\n.pdf", "ä b")]
)
def test_names_of_downloads(name, expected):
    assert stem(name) == expected
    header = Document(expected, [], {}).disposition("zip")["Content-Disposition"]
    assert header.isascii() and "\n" not in header
