# SPDX-License-Identifier: Apache-2.0
"""Other formats of a result: strangers' Markdown stays harmless, tables become cells, formulas MathML."""

from __future__ import annotations

import html
import io
import json
import re
import zipfile
from base64 import b64encode

import docx
import openpyxl
import pytest

from docparser.convert import to_html
from docparser.convert.blocks import Block
from docparser.convert.chunks import _table_parts
from docparser.convert.document import ResultDocument, ResultPage, with_own_pictures
from docparser.convert.formulas import Formulas
from docparser.convert.names import FORBIDDEN, disposition, stem
from docparser.convert.parts import Paths, _with_number, tables_of
from docparser.convert.sections import Spotted
from docparser.convert.workbook import MAX_TEXT, write_cell
from docparser.formula_signs import LONGEST_IN_DOLLARS
from docparser.html_tables import Table, read_tables
from docparser.places.box import Box
from tests.support.converted import convert
from tests.support.paths import ROOT

HOSTILE = """<script>alert(1)</script>
<img src="x" onerror="alert(1)"> <img src="https://evil.example/spy.png">
<svg onload="alert(1)"><script>1</script></svg>
<a href="javascript:alert(1)">a</a> [b](javascript:alert(1)) <iframe src="https://evil.example"></iframe>
<div style="background: url(https://evil.example)">c</div>
<math><mtext><style><img src=x onerror=alert(1)></style></mtext></math>
$\\text{<img src=x onerror=alert(1)>}$ <form action="https://evil.example"><input></form><meta http-equiv="refresh">
"""


def document(text: str, **pictures: bytes) -> ResultDocument:
    return ResultDocument(
        "d", [ResultPage(text, {f"imgs/{name}.jpg": b64encode(data).decode() for name, data in pictures.items()})], {}
    )


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


@pytest.mark.parametrize(
    ("latex", "rows"),
    [
        (r"\begin{aligned}a&=b\\c&=d\end{aligned}", "a|=b\nc|=d"),
        (r"\left\{\begin{aligned}[t]a&=b\\[2pt]&=d\\\end{aligned}\right.", "{a|=b\n|=d"),
        (r"\begin{gathered}a=b\\c=d\end{gathered}", "a=b\nc=d"),
        (r"\begin{split}a&=b\\c&=d\end{split}", "a|=b\nc|=d"),
        (r"\begin{align}a&=b\\c&=d\end{align}", "a|=b\nc|=d"),  # without numbers that nobody printed
        (r"\begin{alignedat}{2}a&=b\\c&=d\end{alignedat}", "a|=b\nc|=d"),
        (r"\begin{eqnarray*}a&=&b\\c&=&d\end{eqnarray*}", "a|=|b\nc|=|d"),
        (r"\begin{multline}a\\+b\end{multline}", "a\n+b"),
        (r"a\\b", "a\nb"),
        (r"\begin{array}[t]{ll}a&b\\c&d\end{array}", "a|b\nc|d"),
        (r"\begin{dcases}a&b\\c&d\end{dcases}", "{a|b\nc|d"),
        (r"\begin{aligned}a&=2\&3\end{aligned}", "a|=2&3"),
    ],
)
def test_rows_of_formulas_are_rows_in_html(latex: str, rows: str):
    """A browser knows neither line breaks in a formula nor signs to line up at."""
    math = re.search("<math.*</math>", to_html.page_html(document(f"$${latex}$$").pages[0]))
    assert math and math[0].count("<mtable") == 1
    said = re.sub("<[^<>]*>", "", math[0].replace("</mtd><mtd", "|</mtd><mtd").replace("</mtr><mtr", "\n</mtr><mtr"))
    assert html.unescape(said) == rows
    assert math[0].count('columnalign="right"') == (0 if "|" not in rows or "a|b" in rows else rows.count("\n") + 1)


def test_blocks_and_cells_from_right_to_left_take_their_own_direction_in_html():
    said = '# שלום\n\nplain\n\n- (עולם).\n\n<table><tr><td dir="rtl">a</td><td colspan="2">مثال</td></tr></table>'
    page = to_html.page_html(document(said).pages[0])
    for part in ('<h1 dir="auto">', "<p>plain", '<li dir="auto">', "<td>a</td>", '<td dir="auto" colspan="2">'):
        assert part in page
    assert page.count("dir=") == 3


def test_blocks_and_cells_take_their_own_direction_on_the_web_page():
    style = (ROOT / "parser/docparser/web/static/reading.css").read_text()
    assert re.search(r"\.prose :is\(p, h1,[^)]* li,[^)]* td, th\) \{ unicode-bidi: plaintext; \}", style)
    assert not re.search(r"\.prose t[dh][^{}]*\{[^}]*text-align: left", style)


def test_pictures_of_the_page_are_inside_the_html():
    page = to_html.page_html(document('<img src="imgs/a.jpg" alt="A">', a=b"picture").pages[0])
    assert '<img src="data:image/jpeg;base64,cGljdHVyZQ==" alt="A">' in page


@pytest.mark.parametrize(("width", "shown"), [(120, ' width="12%"'), (2, ' width="1%"'), (0, "")])
def test_pictures_have_their_share_of_the_pages_width_in_html(width: int, shown: str):
    box = [0, 0, width or 120, 60]
    size = {"width": 1000, "height": 1000} if width else {}
    blocks = [{"block_label": "image", "block_content": "", "block_bbox": box}]
    entry = {
        "prunedResult": {"parsing_res_list": blocks, **size},
        "markdown": {"text": "", "images": {f"imgs/img_in_image_box_{'_'.join(map(str, box))}.jpg": "cGljdHVyZQ=="}},
    }
    written = convert(ResultDocument.from_answer("d.pdf", {"layoutParsingResults": [entry]}), "html").decode()
    assert f'<img src="data:image/jpeg;base64,cGljdHVyZQ==" alt="Image"{shown}>' in written


def test_tables_become_cells():
    text = "<table><tr><td rowspan=2>a</td><td colspan='2'>b</td></tr><tr><td>1,234.5</td><td>007</td></tr></table>\n\n"
    text += "| x | y |\n|---|---|\n| -3 | $n^2$ |\n"
    book = openpyxl.load_workbook(io.BytesIO(convert(document(text), "xlsx")))
    first, second = book.worksheets
    assert [[cell.value for cell in row] for row in first.rows] == [["a", "b", None], [None, 1234.5, "007"]]
    assert {str(merged) for merged in first.merged_cells.ranges} == {"A1:A2", "B1:C1"}
    assert [[cell.value for cell in row] for row in second.rows] == [["x", "y"], [-3, "n^2"]]
    assert openpyxl.load_workbook(io.BytesIO(convert(document("none"), "xlsx"))).worksheets[0].title == "No tables"


HOSTILE_CELLS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "=" + "x" * 40_000, "\x00=1", "#N/A", "\ud800=1"]


def saved_cells(*texts: str) -> list:
    """What a program reads from a workbook in whose first column ``texts`` were written."""
    book = openpyxl.Workbook()
    for row, text in enumerate(texts, 1):
        write_cell(book.active.cell(row, 1), text)
    with io.BytesIO() as buffer:
        book.save(buffer)
        return [row[0] for row in openpyxl.load_workbook(buffer).active.iter_rows()]


@pytest.mark.parametrize("text", [*HOSTILE_CELLS, "\t=1", "\r=1", "\n=1"])
def test_cells_never_become_formulas(text):
    """Each cell is a text, shows what was printed, and keeps being a text when somebody edits it."""
    (cell,) = saved_cells(text)
    shown = FORBIDDEN.sub("", text)[:MAX_TEXT]
    assert cell.data_type == "s" and cell.quotePrefix == (text != "#N/A")
    assert str(cell.value).replace("\r", "\n").replace("_x000D_", "\n") == shown.replace("\r", "\n")
    table = f"<table><tr><td>{text}</td></tr></table>"
    (cell,) = next(openpyxl.load_workbook(io.BytesIO(convert(document(table), "xlsx"))).worksheets[0].rows)
    assert cell.data_type == "s" and cell.value in (shown.strip(), "\ufffd=1")  # Markdown has no NUL


NUMBERS = [
    ("0", 0, "0"), ("-3", -3, "0"), ("12.50", 12.5, "0.00"), ("1,234", 1234, "#,##0"), ("1,234.50", 1234.5, "#,##0.00"),
    ("-12,345,678", -12345678, "#,##0"), ("123456789012345", 123456789012345, "0"), ("0.001", 0.001, "0.000"),
]  # fmt: skip
TEXTS = ["007", "+5", "-0", "-0.00", "1234567890123456", "12345678.12345678", "1,23", "12,34,567", "1.234,5", ".5",
         "5.", "1e5", "", "0,123", "١٢", "１２"]  # fmt: skip


def test_numbers_look_as_they_were_printed():
    cells = saved_cells(*(text for text, *_ in NUMBERS), *TEXTS)
    found = [(cell.value, cell.number_format) for cell in cells[: len(NUMBERS)]]
    assert found == [(value, format) for _, value, format in NUMBERS]
    assert [cell.value or "" for cell in cells[len(NUMBERS) :]] == TEXTS


def test_cells_of_careless_html():
    """A cell that would run into one from above ends before it; no cell covers rows that are not there."""
    (table,) = read_tables("<table><tr><td>a<td rowspan=99>b<tr><td colspan='2'>c</td><td>d<br>e</table><p>text")
    assert [(c.row, c.column, c.rows, c.columns, c.text) for c in table.cells] == [
        (0, 0, 1, 1, "a"),
        (0, 1, 2, 1, "b"),
        (1, 0, 1, 1, "c"),
        (1, 2, 1, 1, "d\ne"),
    ]
    assert (table.height, table.width) == (2, 3)
    outer, inner = read_tables("<table><td>a<table><th>b</table></td><td>c</table>")
    assert [cell.text for cell in outer.cells] == ["a", "c"] and [cell.header for cell in inner.cells] == [True]
    assert read_tables("no table") == read_tables("<table></table>") == []


@pytest.mark.parametrize(
    ("said", "rows"), [("0", 1), ("1", 1), ("2", 2), (" 3 ", 3), ("-2", 1), ("x", 1), ("", 1), ("9" * 7, 4), ("99", 4)]
)
def test_spans_are_whole_numbers_from_one(said: str, rows: int):
    (table,) = read_tables(f"<table><tr><td rowspan='{said}'>a<td>b" + "<tr><td>c" * 3 + "</table>")
    assert table.cells[0].rows == rows


@pytest.mark.parametrize(
    ("rows", "head"),
    [
        (["<th>a<th>b", "<td>1<td>2"], 1),
        (["<th>a<th>b", "<th>c<th>d", "<td>1<td>2"], 2),
        (["<th rowspan=2>a<th>b", "<td>c", "<td>1<td>2"], 1),
        (["<th rowspan=2>a<th>b", "<td>", "<td>1<td>2"], 2),  # a cell without text may be any
        (["<th>a<td>1", "<th>b<td>2"], 0),
        (["<td>1<td>2", "<td>3<td>4"], 0),
        (["<th>a<th>b"], 0),
        (["<th>a<th>b", "<th>c<th>d"], 1),
    ],
)
def test_rows_of_headers_alone_are_a_tables_head(rows: list[str], head: int):
    (table,) = read_tables("<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>")
    assert table.head == head


def test_the_cells_of_a_long_table_are_not_looked_through_for_each_of_its_rows(monkeypatch: pytest.MonkeyPatch):
    """A table over 100 pages has 5,000 rows of 25,000 cells."""
    (table,) = read_tables("<table>" + "<tr><td>a<td>b" * 50 + "</table>")
    looked: list[int] = []

    def look(table: Table, width: int = table.width) -> int:
        looked.append(width)
        return width

    monkeypatch.setattr(Table, "width", property(look))
    assert table.rows() == [["a", "b"]] * 50 and len(looked) == 1
    assert len(list(_table_parts(Spotted(""), table, 512))) == 1 and len(looked) == 2


@pytest.mark.parametrize(
    ("content", "rows"),
    [("Year | Wells\n2023 | 4", 2), ("a|b\n1|2\n3|4", 3), ("Year | Wells", None), ("Year\n2023", None), ("", None)],
)
def test_lines_of_cells_are_a_charts_table(content: str, rows: int | None):
    tables, _ = tables_of(Block("chart", (), content))
    assert [table.height for table in tables] == ([] if rows is None else [rows])
    assert all(cell.header == (cell.row == 0) for table in tables for cell in table.cells)
    assert tables_of(Block("text", (), content)) == ([], "")


def test_pictures_in_cells_have_the_names_that_they_have_now():
    """Jobs give them others, in which their places stay."""
    first, second = "imgs/page_1_img_in_image_box_1_2_3_4.jpg", "imgs/page_2_img_in_image_box_1_2_3_4.jpg"
    paths = Paths([first, second])
    for old, now in ((second, second), ("imgs/img_in_image_box_1_2_3_4.jpg", first), ("imgs/x.jpg", "imgs/x.jpg")):
        assert paths.in_cell(f"a \ue002{old}\ue003") == f"a \ue002{now}\ue003"
    assert [paths.of_box(Box(1, 2, 3, 4)) for _ in range(3)] == [first, second, second]
    assert paths.of_box(Box(1, 2, 3, 5)) == ""


@pytest.mark.parametrize(
    ("label", "markdown", "expected"),
    [
        ("formula_number", "$$x = 1 \\tag*{(3)}$$", "$$x = 1 \\tag*{(3)}$$"),
        ("formula_number", "$$x = 1$$", "$$x = 1$$"),  # nobody asked for it
        ("text", "$$x = 1 \\tag*{(3)}$$", "$$x = 1$$"),
    ],
)
def test_a_formula_has_its_number_where_the_markdown_has_it(label: str, markdown: str, expected: str):
    assert _with_number("$$x = 1$$", Block(label, (), "(3)"), markdown) == expected


def test_marks_of_formulas_that_are_not_there_are_nothing():
    formulas = Formulas()
    assert formulas.take_out("so $x$ and $y_1$") == "so \ue0000\ue001 and \ue0001\ue001"
    assert formulas.find("1") == ("y_1", False)
    assert {formulas.find(number) for number in ("2", "9", "9" * 20)} == {("", False)}


@pytest.mark.parametrize(("letters", "formulas"), [(LONGEST_IN_DOLLARS, 1), (LONGEST_IN_DOLLARS + 1, 0)])
def test_dollars_far_apart_are_no_signs(letters: int, formulas: int):
    text = f"so ${'x' * (letters - 2)}^2$ here"
    assert Formulas().take_out(text).count("\ue000") == formulas


def test_json_is_readable_and_pictures_of_one_name_are_renamed_without_parts_too():
    said = ResultDocument("d", [], {"layoutParsingResults": [{"text": "\u6c34\u4e95"}]})
    assert "\u6c34\u4e95".encode() in convert(said, "json")
    first, second = with_own_pictures([ResultPage("![](imgs/a.jpg)", {"imgs/a.jpg": "x"})] * 2)
    assert (first.text, first.pictures) == ("![](imgs/a.jpg)", {"imgs/a.jpg": "x"})
    assert (second.text, second.pictures) == ("![](imgs/page_0002_a.jpg)", {"imgs/page_0002_a.jpg": "x"})


def test_archives_hold_only_what_lies_below_their_root():
    pages = [ResultPage("t", {"imgs/a.jpg": "MTIz", "../../etc/b.jpg": "Mg==", "/c.jpg": "Mw=="})]
    archive = zipfile.ZipFile(io.BytesIO(convert(ResultDocument("d", pages, {}), "zip")))
    assert all(entry.date_time > (2020, 1, 1) for entry in archive.infolist()), "none of 1980"
    assert archive.namelist() == ["d.md", "d.json", "d.html", "imgs/a.jpg"]
    assert archive.read("imgs/a.jpg") == b"123"


def test_a_page_that_is_missing_or_failed_is_named_where_it_would_stand():
    entries = [{"markdown": {"text": text}} for text in ("one", "", "four")]
    report = {"pages": [{"page": 2, "error": {"kind": "internal", "message": "m"}}]}
    result = {"layoutParsingResults": entries, "docparser": report}
    answer = io.BytesIO(json.dumps({"result": result, "numbers": [1, 2, 4], "missing": [3]}).encode())
    document = ResultDocument.read({"name": "d.pdf"}, answer)
    expected = b"one\n\n<!-- page 2 is missing -->\n\n<!-- page 3 is missing -->\n\nfour\n"
    assert convert(document, "md") == expected
    assert re.findall("<p>(.*)</p>", convert(document, "html").decode()) == [
        "one",
        "Page 2 is missing.",
        "Page 3 is missing.",
        "four",
    ]
    written = [paragraph.text for paragraph in docx.Document(io.BytesIO(convert(document, "docx"))).paragraphs]
    assert [text for text in written if text.strip()] == ["one", "Page 2 is missing.", "Page 3 is missing.", "four"]


@pytest.mark.parametrize(
    "name, expected", [("../../x.pdf", "x"), ("..", "document"), ("", "document"), ("ä b\n.pdf", "ä b")]
)
def test_names_of_downloads(name, expected):
    assert stem(name) == expected
    header = disposition(name, "zip")
    assert header.isascii() and "\n" not in header
