# SPDX-License-Identifier: Apache-2.0
"""The files that parse_folder.py writes, opened with the programs and libraries that read these formats."""

from __future__ import annotations

import argparse
import asyncio
import base64
import errno
import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import docx
import openpyxl
import pikepdf
import pypdfium2
import pytest
from pikepdf import Array, Dictionary, Name
from PIL import Image, ImageChops

import file_types
from batch import answers, arguments, outputs, pages, run
from batch.inputs import Document
from batch.picture_pdf import PicturePdf, as_jpeg
from batch.progress import Counts, Display
from batch.state import DocumentState, Trouble
from bundle import files
from docparser.convert.document import ResultDocument
from tests.support.converted import convert
from tests.support.entries import block_of, entry_of
from tests.support.numbered_pages import NumberedPagesParser, numbered_pdf, result_of
from tests.support.paths import ROOT
from tests.support.wait import wait_for
from tests.tools.calls import call
from tool_errors import ParseError


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of results of a PDF of three pages, in every format; tests only read it."""
    folder = tmp_path_factory.mktemp("results")
    (folder / "book.pdf").write_bytes(numbered_pdf(3))
    parser = NumberedPagesParser()
    try:
        words = ("book.pdf", "--formats", ",".join(arguments.FORMATS), "--out", "out", "--server", parser.url)
        assert call("parse_folder.py", *words, cwd=folder).returncode == 0
    finally:
        parser.close()
    return folder / "out/book.pdf"


def test_spreadsheet(results):
    book = openpyxl.load_workbook(results / "book.xlsx")
    assert book.sheetnames == [f"Page {page} Table {page}" for page in (1, 2, 3)]
    sheet = book["Page 2 Table 2"]
    assert sorted(str(area) for area in sheet.merged_cells.ranges) == ["A1:B1", "A2:A3"]
    assert (sheet["A1"].value, sheet["A2"].value, sheet["B3"].value) == ("Item", "Paper", "A3")
    assert sheet["C2"].value == 12.5 and sheet["C2"].number_format == "0.00" and sheet["B4"].value == -3
    assert sheet["C3"].value == "=HYPERLINK(1)" and sheet["C3"].data_type == "s" and sheet["C3"].quotePrefix
    assert sheet["A4"].value == "007" and sheet["C4"].value == "+49 30" and sheet["C4"].quotePrefix


def test_the_service_writes_the_same_spreadsheet(results):
    records = sorted((results / ".parse/pages").glob("*.json"))
    entries = [json.loads(record.read_bytes()) for record in records]
    for entry in entries:
        entry["markdown"]["images"] = {}
    answer = {"layoutParsingResults": entries}
    service = convert(ResultDocument.from_answer("book.pdf", answer), "xlsx")
    ours, theirs = (openpyxl.load_workbook(book) for book in (results / "book.xlsx", io.BytesIO(service)))
    assert ours.sheetnames == theirs.sheetnames and len(ours.sheetnames) == 3
    for sheet in ours:
        assert sheet.merged_cells == theirs[sheet.title].merged_cells
        for row, other in zip(sheet.iter_rows(), theirs[sheet.title].iter_rows(), strict=True):
            assert [(c.value, c.data_type, c.number_format, c.quotePrefix) for c in row] == [
                (c.value, c.data_type, c.number_format, c.quotePrefix) for c in other
            ]


def test_word(results):
    document = docx.Document(str(results / "book.docx"))
    titles = [p.text for p in document.paragraphs if p.style and p.style.name == "Heading 1"]
    assert titles == ["Page 1", "Page 2", "Page 3"]
    assert "left out" not in "".join(p.text for p in document.paragraphs)
    assert len(document.tables) == 3 and len(document.inline_shapes) == 3
    table = document.tables[0]
    assert [cell.text for cell in table.rows[1].cells] == ["Paper", "A4", "12.50"]
    assert table.cell(0, 0)._tc is table.cell(0, 1)._tc, "cells that span are merged"


def test_the_service_writes_the_same_word_file(results):
    records = [json.loads(record.read_bytes()) for record in sorted((results / ".parse/pages").glob("*.json"))]
    answer = {
        "layoutParsingResults": [
            {
                "prunedResult": record["prunedResult"],
                "markdown": {
                    "text": record["markdown"]["text"],
                    "images": {
                        name: base64.b64encode((results / name).read_bytes()).decode()
                        for name in record["markdown"]["images"].values()
                    },
                },
            }
            for record in records
        ]
    }
    theirs = zipfile.ZipFile(io.BytesIO(convert(ResultDocument.from_answer("book.pdf", answer), "docx")))
    ours = zipfile.ZipFile(results / "book.docx")
    assert ours.read("word/document.xml") == theirs.read("word/document.xml")


def test_a_missing_page_is_said_in_word(parse, tmp_path, parser):
    (tmp_path / "book.pdf").write_bytes(numbered_pdf(2))
    parser.script[2] = [422]
    assert parse("book.pdf", "--formats", "docx").returncode == 1
    document = docx.Document(str(tmp_path / "out/book.pdf/book.docx"))
    (said,) = [p.text for p in document.paragraphs if p.style and p.style.name == "Quote"]
    assert said.startswith("Page 2 is missing: ")


def test_searchable_pages(results):
    pdf = pypdfium2.PdfDocument(results / "book.pdf")
    assert [round(page.get_width()) for page in pdf] == [601, 602, 603]
    for number, page in enumerate(pdf, 1):
        found = page.get_textpage().get_text_bounded().split()
        assert found[:2] == ["Page", str(number)] and {"Second", "left", "out"} <= set(found)
    assert (results / "book.pdf").stat().st_size < (results.parents[1] / "book.pdf").stat().st_size + 8000


def test_a_document_that_cannot_be_made_searchable_is_reported(parse, tmp_path):
    (tmp_path / "odd.pdf").write_bytes(numbered_pdf(2).replace(b"/Count 2", b"/Count 3"))
    done = parse("odd.pdf", "--formats", "md,pdf,docx")
    assert (
        done.returncode == 1 and "the results cannot be written (pdf: " in done.stdout and "pages or 2" in done.stdout
    )
    assert (tmp_path / "out/odd.pdf/odd.md").is_file() and not (tmp_path / "out/odd.pdf/odd.pdf").exists()
    assert (tmp_path / "out/odd.pdf/odd.docx").is_file(), "the formats behind it are written"
    (document,) = json.loads((tmp_path / "out/report.json").read_text())["documents"]
    assert document["written"] == ["md", "docx"] and not document["complete"]


def test_chunks(results):
    lines = [json.loads(line) for line in (results / "book.chunks.jsonl").read_text().splitlines()]
    assert {line["headings"][0] for line in lines} == {"Page 1", "Page 2", "Page 3"}
    tables = [line for line in lines if line["kind"] == "table"]
    assert len(tables) == 3 and tables[1]["pages"] == [2] and "| Paper | A4 | 12.50 |" in tables[1]["text"]


def kept(folder: Path, entries: list[dict]) -> DocumentState:
    """A document whose pages have these entries, as a run keeps it."""
    state = DocumentState(Document(folder / "book.pdf", Path("book.pdf")), folder / "out", {})
    state.start(len(entries))
    for number, entry in enumerate(entries, 1):
        answers.keep(state, number, pages.Page(b"", file_types.PDF), {"layoutParsingResults": [entry]})
    return state


def test_the_service_writes_the_same_headings_into_markdown(tmp_path):
    """As they are printed, at the levels of the whole document; PaddleX begins each page with `#`."""
    titles = {"1 Wells.": "# 1 Wells", "1.1 3D printing.": "# 1.1 3 D printing"}
    entries = [
        entry_of([block_of("paragraph_title", printed, (10, 10, 90, 20), block_id=0)], f"{paddlex}\n\nWords.")
        for printed, paddlex in titles.items()
    ]
    (written,) = outputs.write_all(kept(tmp_path, entries), ["md"])
    service = convert(ResultDocument.from_answer("book.pdf", {"layoutParsingResults": entries}), "md").decode()
    assert written.read_text() == service and "### 1.1 3D printing.\n" in service


def test_places_that_were_asked_for_stand_in_the_json_and_in_the_chunks(tmp_path):
    line = {"text": "Wells.", "bbox": [10, 10, 90, 20], "start": 0, "end": 6}
    entry = entry_of([block_of("text", "Wells.", (10, 10, 90, 20), block_id=0)])
    entry["places"] = [{"block_id": 0, "source": "ink", "lines": [line]}]
    answer, chunk = (path.read_text() for path in outputs.write_all(kept(tmp_path, [entry]), ["json", "chunks"]))
    assert json.loads(answer)["pages"][0]["places"] == entry["places"]
    assert json.loads(chunk)["places"] == [{"page": 1, "box": line["bbox"], "start": 0, "end": 6}]


def test_tables_over_pages_are_one_in_the_outputs(parse, tmp_path, parser):
    """Each page ends with the table that the next one begins with."""
    (tmp_path / "book.pdf").write_bytes(numbered_pdf(3))
    parser.only_tables = True
    assert parse("book.pdf", "--formats", "md,xlsx,docx,chunks").returncode == 0
    out = tmp_path / "out/book.pdf"
    text = (out / "book.md").read_text()
    assert text.count("<table") == text.count("Item") == 1 and text.count("Paper") == 3
    assert len(openpyxl.load_workbook(out / "book.xlsx").sheetnames) == 1
    assert len(docx.Document(str(out / "book.docx")).tables) == 1
    assert len((out / "book.chunks.jsonl").read_text().splitlines()) == 1
    assert parse("book.pdf", "--formats", "md", "--options", '{"mergeTables": false}').returncode == 0
    assert (out / "book.md").read_text().count("<table") == 3


def test_drawn_pages(results):
    pdf = pypdfium2.PdfDocument(results / "book.layout.pdf")
    assert [tuple(map(round, page.get_size())) for page in pdf] == [(601, 800), (602, 800), (603, 800)]
    image = pdf[1].render().to_pil().convert("RGB")
    redness = ImageChops.subtract(image.getchannel("R"), image.getchannel("G"))
    box = redness.point([level > 100 for level in range(256)]).getbbox()
    assert box, "nothing is red"
    left, _, right, bottom = box
    # The box that the simulated parser drew: 10 px from each side at two pixels a point, down to the middle.
    assert left in range(3, 8) and right - 1 in range(594, 600) and bottom - 1 in range(396, 404)


@pytest.mark.parametrize(
    ("mode", "format"), [("RGB", "JPEG"), ("L", "JPEG"), ("CMYK", "JPEG"), ("RGBA", "PNG"), ("P", "PNG")]
)
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


@pytest.mark.parametrize(
    ("name", "offset", "magic"),
    [(known.name, offset, magic) for known in file_types.FORMATS for offset, magic in known.signatures],
)
def test_every_format_of_the_table_is_taken(tmp_path, name, offset, magic):
    (tmp_path / "x").write_bytes(bytes(offset) + magic)
    assert pages.kind(tmp_path / "x") == name


def test_pages_of_a_big_tiff(tmp_path):
    """Offsets of 64 bits, as scanners of large formats write them."""
    first, second = Image.new("L", (60, 40)), Image.new("L", (30, 20))
    first.save(tmp_path / "x.tif", save_all=True, append_images=[second], big_tiff=True)
    assert (tmp_path / "x.tif").read_bytes()[:4] == b"II+\0"
    reader = pages.PageCutter()
    try:
        assert reader.count(tmp_path / "x.tif") == 2
        page = reader.read(tmp_path / "x.tif", 2)
    finally:
        reader.close()
    assert Image.open(io.BytesIO(page.data)).size == (30, 20)


def test_a_page_of_a_tiff_that_is_cut_off_has_a_note(tmp_path):
    """It goes to the parser as a whole picture, which tells nothing of it."""
    scans = [Image.effect_noise((60, 40), 90) for _ in range(2)]
    scans[0].save(tmp_path / "x.tif", save_all=True, append_images=scans[1:])
    with (tmp_path / "x.tif").open("r+b") as file:
        file.truncate(file.seek(0, io.SEEK_END) - 1000)
    state = DocumentState(Document(tmp_path / "x.tif", Path("x.tif")), tmp_path / "out", {})
    state.start(2)
    reader = pages.PageCutter()
    try:
        for number in (1, 2):
            answers.keep(state, number, reader.read(tmp_path / "x.tif", number), result_of(number, None))
    finally:
        reader.close()
    assert {page: [note.kind for note in told] for page, told in state.notes.items()} == {2: ["cut_short"]}


def ink(pdf: bytes) -> int:
    """Dark pixels of the first page."""
    page = pypdfium2.PdfDocument(pdf)[0].render(scale=2).to_pil().convert("L")
    return sum(value < 128 for value in page.tobytes())


def cut(source: Path, number: int = 1) -> bytes:
    reader = pages.PageCutter()
    try:
        return reader.thread.submit(reader.read, source, number).result().data
    finally:
        reader.close()


def test_filled_forms_are_kept(tmp_path):
    """A page is cut out with what was typed into its form, not as the empty form."""
    (tmp_path / "form.pdf").write_bytes(form_pdf("Wexcombe"))
    assert ink(cut(tmp_path / "form.pdf")) > 50, "the field's text is on the page"


@pytest.mark.parametrize("indirect", [False, True])
def test_layers_that_are_switched_off_stay_so(tmp_path, indirect):
    """A page is cut out as viewers show it: page 2 has a square on a layer that is shown besides."""
    with pikepdf.open(io.BytesIO(form_pdf("Wexcombe"))) as made:
        off, on = (made.make_indirect(Dictionary(Type=Name.OCG, Name="layer")) for _ in range(2))
        known = Dictionary(OCGs=Array([off, on]), D=Dictionary(OFF=Array([off]), Order=Array([off, on])))
        made.Root.OCProperties = made.make_indirect(known) if indirect else known
        made.add_blank_page(page_size=(200, 100))
        for page, shown in zip(made.pages, (b"", b"/OC /On BDC 0 0 10 10 re f EMC "), strict=True):
            page.obj.Resources = Dictionary(Properties=Dictionary(Off=off, On=on))
            page.obj.Contents = made.make_stream(shown + b"/OC /Off BDC 90 0 99 99 re f EMC")
        made.save(tmp_path / "layers.pdf")
    assert ink(cut(tmp_path / "layers.pdf", 2)) == 400
    text = cut(tmp_path / "layers.pdf", 1)
    assert len(pypdfium2.PdfDocument(text)) == 1 and 50 < ink(text) < 1000, "what is filled in alone"


@pytest.mark.parametrize("value", [7, Array([]), Name.Odd, Dictionary(D=7)])
def test_what_is_said_of_layers_may_be_anything(tmp_path, value):
    with pikepdf.open(io.BytesIO(form_pdf("Wexcombe"))) as made:
        made.Root.OCProperties = made.make_indirect(value)
        made.save(tmp_path / "odd.pdf")
    assert ink(cut(tmp_path / "odd.pdf")) > 50


def form_pdf(value: str) -> bytes:
    """A PDF with one text field, filled in."""
    stream = f"/Tx BMC BT /F 12 Tf 2 5 Td ({value}) Tj ET EMC".encode()
    objects = [
        (
            b"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [4 0 R] /DR << /Font << /F 6 0 R >> >> /DA (/F "
            b"12 Tf 0 g) >> >>"
        ),
        b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 100] /Annots [4 0 R] /Resources << >> >>",
        f"<< /Type /Annot /Subtype /Widget /FT /Tx /T (town) /V ({value}) /Rect [20 40 180 60] /P 3 0 R /F 4 "
        f"/DA (/F 12 Tf 0 g) /AP << /N 5 0 R >> >>".encode(),
        b"<< /Type /XObject /Subtype /Form /BBox [0 0 160 20] /Resources << /Font << /F 6 0 R >> >> "
        + f"/Length {len(stream)} >>\nstream\n".encode()
        + stream
        + b"\nendstream",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, places = b"%PDF-1.5\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    table = b"".join(f"{place:010d} 00000 n \n".encode() for place in places)
    size = len(objects) + 1
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n".encode()
    return out + f"xref\n0 {size}\n0000000000 65535 f \n".encode() + table + trailer


def test_a_failed_page_that_was_read_at_last_is_so_after_an_interruption(tmp_path):
    book = Document(tmp_path / "book.pdf", Path("book.pdf"))
    state = DocumentState(book, tmp_path / "out", {})
    state.note(Trouble(1, "the parser was away"))
    state.clear(1)
    assert DocumentState(book, tmp_path / "out", {}).trouble == []


def test_what_is_wrong_with_a_page_is_noted_before_its_record(tmp_path, monkeypatch):
    """Its presence says that the page is done, to a run after a power cut too."""
    state = DocumentState(Document(tmp_path / "book.pdf", Path("book.pdf")), tmp_path / "out", {})
    state.start(2)
    result = result_of(1, None)
    result["docparser"]["pages"] = [
        {"blocks": [{"message": "the VLM broke"}], "notes": [{"kind": "k", "message": "m"}]}
    ]
    result["layoutParsingResults"][0]["prunedResult"]["parsing_res_list"][0]["doubtful"] = True

    def known_then(write: Callable[..., None], path: Path, value: object, *flushed: bool) -> None:
        if path == state.page_file(1) and not path.exists():
            known = DocumentState(state.document, tmp_path / "out", {})
            assert [trouble.lost for trouble in known.trouble] == [False] and known.doubts[1] and known.notes[1]
        write(path, value, *flushed)

    monkeypatch.setattr(files, "write_json", partial(known_then, files.write_json))
    answers.keep(state, 1, pages.Page(b"", file_types.PDF), result)
    assert state.has(1, drawing=False) and len(state.trouble) == 1
    answers.keep(state, 1, pages.Page(b"", file_types.PDF), result_of(1, None))
    assert not DocumentState(state.document, tmp_path / "out", {}).trouble, "it was parsed again"


@pytest.mark.parametrize("lasting", [True, False])
def test_what_counts_after_a_power_cut_is_on_the_disk_before_it_counts(tmp_path, monkeypatch, lasting):
    flushed = set()
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.add(os.fstat(descriptor).st_ino))
    state = DocumentState(Document(tmp_path / "book.pdf", Path("book.pdf")), tmp_path / "out", {}, lasting)
    state.start(1)
    answers.keep(state, 1, pages.Page(b"", file_types.PDF), result_of(1, None))
    outputs.write_all(state, ["md", "json"])
    written = {path for path in state.folder.rglob("*") if path.is_file()}
    assert {path.suffix for path in written} >= {".json", ".md", ".jpg"}
    assert {path for path in written if path.stat().st_ino in flushed} == (written if lasting else set())


def test_a_file_that_breaks_off_while_it_is_read_costs_its_pages_not_the_run(tmp_path, monkeypatch):
    Image.new("L", (60, 50)).save(tmp_path / "a.png")
    monkeypatch.setattr(Path, "read_bytes", partial(_fail, OSError(errno.EIO, "Input/output error")))
    reader = pages.PageCutter()
    with pytest.raises(ParseError, match=r"^cannot be read \(Input/output error\)$"):
        reader.read(tmp_path / "a.png", 1)
    reader.close()


def _fail(error: OSError, *_: object) -> None:
    raise error


def test_what_one_thread_notes_is_not_lost_to_another(tmp_path, monkeypatch):
    """The second notes its page while the first is about to write."""
    state = DocumentState(Document(tmp_path / "book.pdf", Path("book.pdf")), tmp_path / "out", {})
    second = threading.Thread(target=state.note, args=(Trouble(2, "odd"),))

    def late(write: Callable[..., None], path: Path, value: object, *flushed: bool) -> None:
        if second.ident is None:
            second.start()
            wait_for(lambda: state._saving.locked() or not second.is_alive())
        write(path, value, *flushed)

    monkeypatch.setattr(files, "write_json", partial(late, files.write_json))
    state.note(Trouble(1, "odd"))
    second.join()
    assert len(DocumentState(state.document, tmp_path / "out", {}).trouble) == 2


def test_outputs_are_written_again_after_a_retry_that_was_interrupted(tmp_path):
    """What the earlier run wrote lacks the pages that are read now; a later run must see that."""
    book = Document(tmp_path / "book.pdf", Path("book.pdf"))
    state = DocumentState(book, tmp_path / "out", {})
    state.start(1)
    state.note(Trouble(1, "the parser was away"))
    state.mark_written(["md"])
    options = argparse.Namespace(out=tmp_path / "out", options={}, formats=("md",), retry_failed=True)
    reader = pages.PageCutter()
    works, _ = asyncio.run(run.survey(options, [book], Display(Counts()), reader))
    reader.close()
    assert [work.pages for work in works] == [[1]] and DocumentState(book, tmp_path / "out", {}).written == []


def test_what_was_written_from_another_file_does_not_stay(tmp_path):
    """Its pictures and formats that are not asked for now, too; but nobody else's files."""
    (tmp_path / "book.pdf").write_bytes(numbered_pdf(1))
    ours = {*(f"book{ending}" for ending, _ in outputs.FORMATS.values()), "images/00001-a.jpg"}
    others = {"notes.md", "images/own.jpg", ".parse/state.json", ".parse/pages", "images", ".parse"}
    folder = tmp_path / "out/book.pdf"
    (folder / "images").mkdir(parents=True)
    for name in (*ours, "notes.md", "images/own.jpg"):
        (folder / name).write_text("of yesterday")
    options = argparse.Namespace(out=tmp_path / "out", options={}, formats=("md",), retry_failed=False)
    reader = pages.PageCutter()
    asyncio.run(run.survey(options, [Document(tmp_path / "book.pdf", Path("book.pdf"))], Display(Counts()), reader))
    reader.close()
    assert {str(path.relative_to(folder)) for path in folder.rglob("*")} == others


def test_the_command_line_knows_every_format():
    assert arguments.FORMATS == tuple(outputs.FORMATS)


@pytest.mark.parametrize("script", ["inference", "eval_accuracy", "eval_performance", "parse_folder", "parse_corpus"])
def test_help_needs_no_environment(script, tmp_path):
    """Any Python 3.11 shows it, before anything is installed; without it, the cure is named."""
    base = Path(sys.executable).resolve()

    def run_with(word: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [base, ROOT / f"scripts/{script}.py", word],
            env={"ENVS_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    done = run_with("--help")
    assert done.returncode == 0 and f"scripts/{script}.py" in done.stdout, done.stderr
    done = run_with("x")
    assert done.returncode == 3 and "make it with scripts/setup_env.sh" in done.stderr
