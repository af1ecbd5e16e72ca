# SPDX-License-Identifier: Apache-2.0
"""What parse_folder.py writes, opened with the programs that people open it with."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path

import docx
import openpyxl
import pypdfium2
import pytest
from conftest import ROOT
from fake_parser import numbered_pdf
from PIL import Image

from batch import main, outputs
from batch.outputs.picture_pdf import PicturePdf, as_jpeg
from batch.outputs.spreadsheet import put
from batch.outputs.tables import read_tables


@pytest.fixture
def results(parse, tmp_path) -> Path:
    """The folder of results of a PDF of three pages, in every format."""
    (tmp_path / "book.pdf").write_bytes(numbered_pdf(3))
    assert parse("book.pdf", "--formats", ",".join(main.FORMATS)).returncode == 0
    return tmp_path / "out/book.pdf"


def test_spreadsheet(results):
    book = openpyxl.load_workbook(results / "book.xlsx")
    assert book.sheetnames == [f"page {page}, table 1" for page in (1, 2, 3)]
    sheet = book["page 2, table 1"]
    assert sorted(str(area) for area in sheet.merged_cells.ranges) == ["A1:B1", "A2:A3"]
    assert (sheet["A1"].value, sheet["A2"].value, sheet["B3"].value) == ("Item", "Paper", "A3")
    assert sheet["C2"].value == 12.5 and sheet["C2"].number_format == "0.00" and sheet["B4"].value == -3
    assert sheet["C3"].value == "=HYPERLINK(1)" and sheet["C3"].data_type == "s" and sheet["C3"].quotePrefix
    assert sheet["A4"].value == "007" and sheet["C4"].value == "+49 30" and sheet["C4"].quotePrefix


def test_no_cell_becomes_a_formula(tmp_path):
    book = openpyxl.Workbook()
    hostile = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\n=1", "=cmd|' /C calc'!A0", "=" + "x" * 40000, "\x00=1", "12"]
    for row, text in enumerate(hostile, 1):
        put(book.active.cell(row, 1), text)
    book.save(tmp_path / "x.xlsx")
    cells = [row[0] for row in openpyxl.load_workbook(tmp_path / "x.xlsx").active.iter_rows()]
    assert [cell.data_type for cell in cells] == ["s"] * 9 + ["n"]
    assert all(cell.quotePrefix for cell in cells[:9])


def test_tables_of_a_careless_model():
    (table,) = read_tables("<table><td>a<td rowspan=99>b<tr><td colspan='x'>c</td><td>d<br>e</table><p>text")
    assert [(c.row, c.column, c.rows, c.columns, c.text) for c in table.cells] == [
        (0, 0, 1, 1, "a"), (0, 1, 2, 1, "b"), (1, 0, 1, 1, "c"), (1, 2, 1, 1, "d\ne"),
    ]  # fmt: skip
    assert read_tables("no table") == [] and read_tables("<table></table>") == []


def test_word(results):
    document = docx.Document(str(results / "book.docx"))
    titles = [p.text for p in document.paragraphs if p.style.name == "Title"]
    assert titles == ["Page 1", "Page 2", "Page 3"]
    assert "Second paragraph." in [p.text for p in document.paragraphs]
    assert "left out" not in "".join(p.text for p in document.paragraphs)
    assert len(document.tables) == 3 and len(document.inline_shapes) == 3
    table = document.tables[0]
    assert [cell.text for cell in table.rows[1].cells] == ["Paper", "A4", "12.50"]
    assert table.cell(0, 0)._tc is table.cell(0, 1)._tc, "cells that span are merged"


def test_drawn_pages(results, tmp_path):
    pdf = pypdfium2.PdfDocument(results / "book.layout.pdf")
    assert [tuple(map(round, page.get_size())) for page in pdf] == [(601, 800), (602, 800), (603, 800)]
    if shutil.which("pdftoppm"):
        subprocess.run(["pdftoppm", "-r", "72", "-png", results / "book.layout.pdf", tmp_path / "page"], check=True)
        image = Image.open(tmp_path / "page-2.png").convert("RGB")
    else:
        image = pdf[1].render().to_pil().convert("RGB")
    red = [(x, y) for x in range(image.width) for y in range(image.height) if image.getpixel((x, y))[0] - image.getpixel((x, y))[1] > 100]
    xs, ys = zip(*red)
    # The box that the simulated parser drew: 10 px from each side at two pixels a point, down to the middle.
    assert min(xs) in range(3, 8) and max(xs) in range(594, 600) and max(ys) in range(396, 404)


@pytest.mark.parametrize(("mode", "format"), [("RGB", "JPEG"), ("L", "JPEG"), ("CMYK", "JPEG"), ("RGBA", "PNG"), ("P", "PNG")])
def test_pictures_of_any_kind_fill_their_pages(tmp_path, mode, format):
    picture = Image.new("RGB", (300, 200), (250, 250, 250))
    picture.paste((200, 30, 30), (0, 0, 150, 100))
    buffer = io.BytesIO()
    picture.convert(mode).save(buffer, format)
    with (tmp_path / "x.pdf").open("wb") as stream:
        drawn = PicturePdf(stream)
        drawn.add(as_jpeg(buffer.getvalue()), None)
        drawn.add(as_jpeg(buffer.getvalue()), (600.5, 400))
        drawn.close()
    pdf = pypdfium2.PdfDocument(tmp_path / "x.pdf")
    assert [page.get_size() for page in pdf] == [(150, 100), (600.5, 400)]
    for page in pdf:
        shown = page.render().to_pil().convert("RGB")
        red, green, _ = shown.getpixel((shown.width // 4, shown.height // 4))
        assert red - green > 100 or (mode == "L" and 60 < red < 110), "the upper left quarter"
        assert min(shown.getpixel((3 * shown.width // 4, 3 * shown.height // 4))) > 235, "the lower right one"


@pytest.mark.parametrize("data", [b"", b"no picture", b"\xff\xd8\xff\xe0 cut off"])
def test_what_is_no_picture_is_refused(data):
    with pytest.raises(ValueError, match="the picture cannot be read"):
        as_jpeg(data)


def test_filled_forms_are_kept(parse, tmp_path, parser):
    """A page is cut out with what was typed into its form, not as the empty form."""
    from batch.pages import PageReader

    source = tmp_path / "form.pdf"
    source.write_bytes(form_pdf("Wexcombe"))
    reader = PageReader()
    try:
        page = reader.thread.submit(reader.read, source, 1).result()
    finally:
        reader.close()
    single = pypdfium2.PdfDocument(page.data)
    dark = sum(value < 128 for value in single[0].render(scale=2).to_pil().convert("L").tobytes())
    assert dark > 50, "the field's text is on the page"


def form_pdf(value: str) -> bytes:
    """A PDF with one text field, filled in."""
    stream = f"/Tx BMC BT /F 12 Tf 2 5 Td ({value}) Tj ET EMC".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [4 0 R] /DR << /Font << /F 6 0 R >> >> /DA (/F 12 Tf 0 g) >> >>",
        b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 100] /Annots [4 0 R] /Resources << >> >>",
        f"<< /Type /Annot /Subtype /Widget /FT /Tx /T (town) /V ({value}) /Rect [20 40 180 60] /P 3 0 R /F 4 "
        f"/DA (/F 12 Tf 0 g) /AP << /N 5 0 R >> >>".encode(),
        b"<< /Type /XObject /Subtype /Form /BBox [0 0 160 20] /Resources << /Font << /F 6 0 R >> >> "
        + f"/Length {len(stream)} >>\nstream\n".encode() + stream + b"\nendstream",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]  # fmt: skip
    out, places = b"%PDF-1.5\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    table = b"".join(f"{place:010d} 00000 n \n".encode() for place in places)
    size = len(objects) + 1
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n".encode()
    return out + f"xref\n0 {size}\n0000000000 65535 f \n".encode() + table + trailer


def test_the_command_line_knows_every_format():
    assert main.FORMATS == tuple(outputs.FORMATS)


@pytest.mark.parametrize("script", ["inference", "eval_accuracy", "eval_performance", "parse_folder"])
def test_help_needs_no_environment(script, tmp_path):
    """Any Python 3.11 shows it, before anything is installed; without it, the cure is named."""
    base = Path(sys.executable).resolve()
    done = subprocess.run([base, ROOT / f"scripts/{script}.py", "--help"], env={"ENVS_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
                          capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
    assert done.returncode == 0 and f"scripts/{script}.py" in done.stdout, done.stderr
    done = subprocess.run([base, ROOT / f"scripts/{script}.py", "x"], env={"ENVS_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
                          capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
    assert done.returncode == 3 and "make it with scripts/setup_env.sh" in done.stderr
