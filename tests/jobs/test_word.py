# SPDX-License-Identifier: Apache-2.0
"""Word files: structure, tables, pictures and formulas, as python-docx and, where it is installed, LibreOffice read
them."""

from __future__ import annotations

import base64
import datetime
import io
import subprocess
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import docx
import pytest
from docx.document import Document
from docx.enum.table import WD_TABLE_DIRECTION
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.oxml.ns import qn
from PIL import Image

from docparser.convert.document import ResultDocument, ResultPage
from docparser.convert.formulas import mathml_of
from docparser.convert.omml import MATH, Untranslatable, omml
from docparser.convert.word import PICTURE_SHARE, render
from tests.support.converted import convert
from tests.support.system_packages import needs

M = f"{{{MATH}}}"
TITLE = "Wells\x01 of 2024"
TEXT = """# Wells of the Lower Valley

The **mean** is $ \\bar{c} = \\frac{1}{n}\\sum c_i $ and the fee $5 or $10.

$$\\int_0^1 x\\,dx$$

- first
- second

<table><tr><th colspan="2">Well</th><th>March</th></tr><tr><td rowspan=2>Mill $x^2$</td><td>a</td><td>0.048</td></tr>
<tr><td>b</td><td><img src="imgs/a.jpg"></td></tr></table>

<div style="text-align: center;"><img src="imgs/a.jpg" alt="Image" width="30%" /></div>

<div style="text-align: center;">Figure 1</div>
"""


def jpeg(width: int, height: int) -> str:
    with io.BytesIO() as buffer:
        Image.new("RGB", (width, height), "red").save(buffer, "JPEG")
        return base64.b64encode(buffer.getvalue()).decode()


def written(*texts: str, **pictures: str) -> bytes:
    with io.BytesIO() as sink:
        render(
            [ResultPage(text, {f"imgs/{name}.jpg": data for name, data in pictures.items()}) for text in texts],
            sink,
            TITLE,
        )
        return sink.getvalue()


def opened(*texts: str, **pictures: str) -> Document:
    return docx.Document(io.BytesIO(written(*texts, **pictures)))


def test_a_file_says_what_it_is_and_nothing_of_the_librarys_template():
    began = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
    said = opened("x").core_properties
    assert (said.author, said.comments, said.title) == ("", "", "Wells\ufffd of 2024")
    assert said.created and said.modified and said.created == said.modified >= began.replace(tzinfo=said.created.tzinfo)
    names = zipfile.ZipFile(io.BytesIO(written("x"))).namelist()
    assert not any(name in names for name in ("docProps/app.xml", "docProps/thumbnail.jpeg"))
    book = zipfile.ZipFile(io.BytesIO(convert(ResultDocument("Wells", [], {}), "xlsx"))).read("docProps/core.xml")
    assert b">Wells</dc:title>" in book and b"openpyxl" not in book


def test_right_to_left_paragraphs_and_tables_say_so():
    word = opened("שלום (עולם).\n\nPlain words\n\n<table><tr><td>עולם</td><td>12</td></tr></table>")
    hebrew, plain = word.paragraphs[:2]
    assert hebrew._p.find(f".//{qn('w:bidi')}") is not None and hebrew.runs[0].font.rtl
    assert plain._p.find(f".//{qn('w:bidi')}") is None and not plain.runs[0].font.rtl
    assert word.tables[0].table_direction == WD_TABLE_DIRECTION.RTL
    (cell, number) = word.tables[0].rows[0].cells
    assert cell.paragraphs[0].runs[0].font.rtl and not number.paragraphs[0].runs[0].font.rtl


def test_right_to_left_runs_are_bold_and_others_stay():
    (paragraph,) = opened("שלום <b>עולם</b> <i>Deep Learning</i> טוב מאוד היום").paragraphs
    assert [run.font.rtl for run in paragraph.runs if run.text.strip()] == [True, True, None, True]
    assert paragraph.runs[1].font.cs_bold and paragraph.runs[1].text == "עולם"


def test_structure_tables_pictures_and_formulas():
    document = opened(TEXT, "page two", a=jpeg(1000, 500))
    told = [(p.style.name, p.text) for p in document.paragraphs if p.style and p.text.strip()]
    assert told[0] == ("Heading 1", "Wells of the Lower Valley")
    assert told[1] == ("Normal", "The mean is  and the fee $5 or $10.")
    assert told[2:] == [
        ("List Bullet", "first"),
        ("List Bullet", "second"),
        ("Normal", "Figure 1"),
        ("Normal", "page two"),
    ]
    (table,) = document.tables
    assert [[cell.text for cell in row.cells] for row in table.rows] == [
        ["Well", "Well", "March"], ["Mill ", "a", "0.048"], ["Mill ", "b", ""]
    ]  # fmt: skip
    assert table.cell(1, 0)._tc is not None and table.rows[0]._tr.find(qn("w:trPr")).find(qn("w:tblHeader")) is not None
    shapes = document.inline_shapes
    assert len(shapes) == 2 and shapes[1].width.inches == pytest.approx(0.3 * 6, abs=0.01)
    assert shapes[1].width == pytest.approx(2 * shapes[1].height, abs=2)
    formulas = list(document.element.iter(f"{M}oMath"))
    assert len(formulas) == 3 and len(list(document.element.iter(f"{M}oMathPara"))) == 1
    # Everything stands in the order of the page: the table before the picture that follows it.
    order = [child.tag.rpartition("}")[2] for child in document.element.body]
    places = [number for number, child in enumerate(document.element.body) if child.findall(f".//{qn('w:drawing')}")]
    assert places == [order.index("tbl"), places[1]] and places[1] > order.index("tbl")
    assert order[-1] == "sectPr"


def test_marks_end_where_they_end():
    centred, plain = opened('<div style="text-align: center;">a</div>\n\nb').paragraphs
    assert (centred.alignment, plain.alignment) == (WD_ALIGN_PARAGRAPH.CENTER, None)
    code, words = opened("<pre>a  b</pre>\n\nc  d").paragraphs
    assert (code.text, words.text) == ("a  b", "c d")
    lists = opened("- a\n  - b\n- c\n\n1. d\n\ne").paragraphs
    styles = [paragraph.style.name for paragraph in lists if paragraph.style]
    assert styles == ["List Bullet", "List Bullet 2", "List Bullet", "List", "Normal"]


def test_tables_in_tables_end_where_they_end_and_do_not_touch():
    nested = "<table><tr><td>a<table><tr><td>inner</td></tr></table></td><td>b</td></tr></table>"
    document = opened(f"{nested}\n<table><tr><td>c</td></tr></table>\n\nafter")
    assert [[cell.text for row in table.rows for cell in row.cells] for table in document.tables] == [
        ["a", "b"],
        ["inner"],
        ["c"],
    ]
    order = [child.tag.rpartition("}")[2] for child in document.element.body]
    assert order[:6] == ["tbl", "p"] * 3 and document.paragraphs[-1].text == "after"


@pytest.mark.parametrize(("said", "share"), [(None, PICTURE_SHARE), ("25%", 0.25), ("100%", 1.0), ("900%", 1.0)])
def test_pictures_take_their_share_of_the_width(said: str | None, share: float):
    width = "" if said is None else f' width="{said}"'
    cell, alone = opened(
        '<table><tr><td><img src="imgs/a.jpg"></td></tr></table>\n\n' + f'<img src="imgs/a.jpg"{width}>',
        a=jpeg(3000, 300),
    ).inline_shapes
    assert cell.width.inches == pytest.approx(0.2 * 6, abs=0.01)
    assert alone.width.inches == pytest.approx(share * 6, abs=0.01)


def shape(latex: str) -> str:
    """The formula in short: names of elements around texts."""

    def short(node: ElementTree.Element) -> str:
        name = node.tag.removeprefix(M)
        if name == "t":
            return node.text or ""
        inside = "".join(short(child) for child in node if not child.tag.endswith("Pr"))
        return inside if name in ("r", "oMath", "oMathPara") else f"{name}({inside})"

    mathml = mathml_of(latex, False)
    assert mathml is not None
    return short(omml(mathml, display=False))


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        ("\\frac{a}{b}", "f(num(a)den(b))"),
        ("x_i^2", "sSubSup(e(x)sub(i)sup(2))"),
        ("\\sqrt[3]{x}", "rad(deg(3)e(x))"),
        ("\\sum_{i=1}^n x_i = 4", "nary(sub(i=1)sup(n)e(sSub(e(x)sub(i))))=4"),
        ("\\left(\\frac{a}{b}\\right)", "d(e(f(num(a)den(b))))"),
        ("f=\\begin{cases}1&x\\\\0&y\\end{cases}", "f=d(e(m(mr(e(1)e(x))mr(e(0)e(y)))))"),
        ("\\begin{pmatrix}a&b\\end{pmatrix}", "d(e(m(mr(e(a)e(b)))))"),
        ("\\begin{aligned}a&=b\\\\c&=d\\end{aligned}", "eqArr(e(a&=b)e(c&=d))"),
        ("\\begin{align}a&=b\\\\[2pt]c&=d\\end{align}", "eqArr(e(a&=b)e(c&=d))"),
        ("\\begin{alignedat}{2}a&=b\\end{alignedat}", "eqArr(e(a&=b))"),
        ("\\begin{gathered}a\\\\b\\\\\\end{gathered}", "eqArr(e(a)e(b))"),
        ("\\underbrace{a+b}_{n}", "limLow(e(groupChr(e(a+b)))lim(n))"),
        ("\\hat{x}+\\overline{AB}", "acc(e(x))+bar(e(AB))"),
        ("\\underline{AB}", "bar(e(AB))"),
        ("\\text{if } x", "if\u00a0x"),
    ],
)
def test_formulas_become_words_own(latex, expected):
    assert shape(latex) == expected


@pytest.mark.parametrize(
    ("latex", "styles"),
    [
        ("\\boldsymbol{x}y", ["bi", None]),
        ("\\mathrm{CO_2}", ["p", "p", None]),
        ("\\mathbf{x+1}", ["b", "b", "b"]),
        ("\\textbf{if}\\text{so}", ["b", "nor"]),
        ("\\sin x", ["p", None]),
    ],
)
def test_letters_of_formulas_are_as_bold_and_upright_as_they_were(latex: str, styles: list[str | None]):
    mathml = mathml_of(latex, False)
    assert mathml is not None
    found: list[str | None] = []
    for run in omml(mathml, display=False).iter(f"{M}r"):
        style, normal = run.find(f"{M}rPr/{M}sty"), run.find(f"{M}rPr/{M}nor")
        found.append("nor" if normal is not None else None if style is None else style.get(f"{M}val"))
    assert found == styles


def test_what_word_has_no_such_thing_for_stays_latex():
    with pytest.raises(Untranslatable, match="menclose"):
        shape("\\cancel{x}")
    document = opened("so $\\cancel{x}^2$ is, and $\\frac{a$ too, $\\sum^\\def\\a{}$ as well")
    assert document.paragraphs[0].text == "so \\cancel{x}^2 is, and \\frac{a too, \\sum^\\def\\a{} as well"


HOSTILE = (
    "<table>" * 60 + "<td>deep",
    "<table><tr>" + "<td>x</td>" * 70 + "</tr></table>",
    "<table><tr><td rowspan=200 colspan=200>x</td></tr></table><table></table>",
    "</div></ul></li></b></table><b><li><div>x",
    '<img src="imgs/a.jpg"><img src="/etc/passwd"><img src="http://127.0.0.1:9/x.jpg"> x',
    "\ue0000\ue001 \ue000999999999999\ue001 \ue002imgs/a.jpg\ue003 x",
    "\x00\x0b\ud800 x <script>no</script>",
    "> " * 15 + "x",
    "<b>" * 3000 + "x",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_careless_and_hostile_pages_make_a_file_that_opens(text):
    from docparser.convert.names import writable

    document = opened(writable(text), a=base64.b64encode(b"no picture").decode())
    said = "".join(node.text or "" for node in document.element.iter(qn("w:t")))
    assert ("x" in said or "deep" in said) and "no" not in said.replace("cannot be read", "")
    assert all(len(table._tbl.tblGrid) <= 63 for table in document.tables)


def test_a_table_with_more_columns_than_word_opens_is_lines_whose_cells_stay_in_their_columns():
    first = "<tr><td colspan=3>a\nb<td rowspan=2>c" + "<td>x" * 66
    lines = [paragraph.text for paragraph in opened(f"<table>{first}<tr>" + "<td>y" * 69 + "</table>").paragraphs]
    assert lines == ["a b\t\t\tc" + "\tx" * 66, "\t".join(["y", "y", "y", "", *"y" * 66])]


@pytest.mark.long
@needs("libreoffice-writer-nogui")
def test_libreoffice_opens_it(tmp_path: Path):
    (tmp_path / "a.docx").write_bytes(written(TEXT, a=jpeg(1000, 500)))
    home = f"-env:UserInstallation=file://{tmp_path}/home"
    words = [
        "soffice",
        home,
        "--headless",
        "--convert-to",
        "pdf",
        "--outdir",
        str(tmp_path),
        str(tmp_path / "a.docx"),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert (tmp_path / "a.pdf").is_file(), done.stdout + done.stderr
    import pypdfium2

    text = pypdfium2.PdfDocument(tmp_path / "a.pdf")[0].get_textpage().get_text_bounded()
    assert "Wells of the Lower Valley" in text and "0.048" in text
