# SPDX-License-Identifier: Apache-2.0
"""Searchable PDFs: the pages look as they did, and their text is found where it stands.

Read with PDFium, which is Chromium's reader too, and with poppler's `pdftotext` where it is installed.
"""

from __future__ import annotations

import base64
import ctypes
import dataclasses
import html
import io
import json
import math
import re
import subprocess
from pathlib import Path
from typing import Any

import pikepdf
import pypdfium2
import pytest
from PIL import Image, ImageChops, ImageDraw, ImageOps
from PIL.TiffImagePlugin import IFDRational

from docparser.convert.document import ResultDocument, Source
from docparser.convert.pdf_text import Codes, pieces, true_type
from docparser.convert.picture_pages import _points
from docparser.convert.searchable_pdf import UneditablePdf, write
from docparser.convert.text_layer import lines_of
from docparser.places.box import Box
from tests.support import samples
from tests.support.converted import convert
from tests.support.entries import block_of, pruned_of
from tests.support.paths import DATA
from tests.support.system_packages import needs

CHINESE = "检索增强生成需要好的分块。表格与公式𠮷也在其中。"
DECOMPOSED = "Cafe\u0301 naı̈ve ﬁn ½ Ωλ"


def drawn(page: dict) -> dict:
    """A page of tests/data as the service gives it."""
    blocks = [block_of(block["label"], content(block), block["bbox"]) for block in page["blocks"]]
    return pruned_of(blocks, page["width"], page["height"])


def content(block: dict) -> str:
    if "cells" not in block:
        return block["text"]
    rows = ("".join(f"<td>{cell}</td>" for cell in row) for row in block["cells"])
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


def one_block(text: str, box: tuple[float, ...], size: tuple[float, float], label: str = "text") -> dict:
    return pruned_of([block_of(label, text, box)], *size)


def made(path: Path, format: str, *pages: dict, first: int = 1) -> pypdfium2.PdfDocument:
    return pypdfium2.PdfDocument(made_bytes(path, format, *pages, first=first))


def made_bytes(path: Path, format: str, *pages: dict, first: int = 1) -> bytes:
    with io.BytesIO() as sink:
        write(Source(path, format), enumerate(({"prunedResult": page} if page else {} for page in pages), first), sink)
        return sink.getvalue()


def text_of(page: pypdfium2.PdfPage) -> str:
    return page.get_textpage().get_text_bounded()


def words(text: str) -> list[str]:
    return text.split()


@pytest.fixture(scope="module")
def handbook(tmp_path_factory) -> tuple[Path, list[dict]]:
    """The searchable handbook, and its pages as tests/data says them."""
    pages = json.loads((DATA / "handbook.json").read_text())["pages"]
    path = tmp_path_factory.mktemp("handbook") / "handbook.pdf"
    path.write_bytes(made_bytes(DATA / "handbook.pdf", "PDF", *map(drawn, pages)))
    return path, pages


def test_every_line_is_found_where_it_stands(handbook):
    path, pages = handbook
    pdf = pypdfium2.PdfDocument(path)
    for shown, page in zip(pdf, pages, strict=True):
        said = shown.get_textpage()
        scale = shown.get_width() / page["width"]
        assert words(said.get_text_bounded()) == words(" ".join(content(b) for b in page["blocks"] if b["text"])) or (
            "table" in [b["label"] for b in page["blocks"]]
        )
        for block in page["blocks"]:
            if "cells" in block or not block["text"]:
                continue
            left, top, right, bottom = (value * scale for value in block["bbox"])
            height = shown.get_height()
            inside = said.get_text_bounded(left - 3, height - bottom - 3, right + 3, height - top + 3)
            assert words(inside) == words(block["text"])
            assert [words(line) for line in inside.splitlines() if line.strip()] == list(map(words, block["lines"]))


def test_the_pages_look_as_they_did_and_the_file_is_hardly_larger(handbook):
    path, _ = handbook
    before, after = DATA / "handbook.pdf", path
    assert after.stat().st_size < before.stat().st_size * 1.02 + 8000
    for old, new in zip(pypdfium2.PdfDocument(before), pypdfium2.PdfDocument(after), strict=True):
        assert ImageChops.difference(old.render().to_pil(), new.render().to_pil()).getbbox() is None


@needs("poppler-utils")
def test_poppler_finds_the_words_in_their_boxes(handbook):
    path, pages = handbook
    told = subprocess.run(["pdftotext", "-bbox", path, "-"], capture_output=True, text=True, check=True).stdout
    for page, part in zip(pages, told.split("<page ")[1:], strict=True):
        found = re.findall(r'xMin="(.+?)" yMin="(.+?)" xMax="(.+?)" yMax="(.+?)">(.*?)</word>', part)
        scale = page["width"] / float(part.partition('width="')[2].partition('"')[0])
        placed = [([float(number) * scale for number in place], html.unescape(word)) for *place, word in found]
        for block in page["blocks"]:
            left, top, right, bottom = block["bbox"]
            inside = [
                word
                for place, word in placed
                if left - 8 < place[0] and place[2] < right + 8 and top - 8 < place[1] and place[3] < bottom + 8
            ]
            assert set(words(block["text"])) <= set(inside)


def test_cells_of_a_table_are_found_one_by_one():
    page = json.loads((DATA / "invoice.json").read_text())
    (table,) = (block for block in page["blocks"] if "cells" in block)
    (shown,) = made(DATA / "invoice.png", "PNG", drawn(page))
    said, scale = shown.get_textpage(), shown.get_width() / page["width"]
    left, top, right, bottom = (value * scale for value in table["bbox"])
    row = (bottom - top) / len(table["cells"])
    for number, cells in enumerate(table["cells"]):
        above = shown.get_height() - top - number * row
        assert words(said.get_text_bounded(left, above - row, right, above)) == words(" ".join(cells))


def test_cells_lie_in_their_fields_where_the_answer_has_them():
    told = one_block("<table><tr><td>a</td></tr><tr><td>b</td></tr></table>", (0, 0, 90, 90), (100, 100), "table")
    told["parsing_res_list"][0]["block_id"] = 4
    field = {"row": 1, "column": 0, "rowSpan": 1, "columnSpan": 1, "bbox": [50, 70, 90, 80], "text": "b"}
    for places, expected in (([], (0, 67.5)), ([{"block_id": 4, "source": "ink", "cells": [field]}], (50, 75))):
        entry = {"prunedResult": told, "places": places}
        ((first, second),) = lines_of(entry, Image.new("L", (100, 100), 255), 1.0)
        assert (first.text, first.box.left, (first.box.top + first.box.bottom) / 2) == ("a", 0, 22.5)
        assert (second.box.left, (second.box.top + second.box.bottom) / 2) == expected


def test_every_script_is_found_and_needs_no_font(tmp_path):
    path = tmp_path / "a.png"
    Image.new("L", (600, 800), 255).save(path)
    page = one_block(CHINESE * 4, (50, 50, 550, 400), (600, 800))
    page["parsing_res_list"].append(block_of("text", DECOMPOSED, (50, 500, 550, 540)))
    data = made_bytes(path, "PNG", page)
    assert len(data) < path.stat().st_size + 6000
    (shown,) = pypdfium2.PdfDocument(data)
    found = "".join(text_of(shown).split())
    assert found == (CHINESE * 4 + "Café naı̈ve fin ½ Ωλ").replace(" ", "")
    assert shown.get_textpage().search("检索增强").get_next()
    with pikepdf.open(io.BytesIO(data)) as pdf:
        font = pdf.pages[0].Resources.Font.DocparserText.DescendantFonts[0].FontDescriptor
        assert len(font.FontFile2.read_bytes()) < 500


def test_texts_that_were_spotted_lie_where_they_were_spotted():
    found = {"rec_polys": [[[5, 8], [25, 6], [26, 16], [4, 18]]], "rec_texts": ["cafe\u0301  a"]}
    told = one_block("ignored", (0, 0, 90, 90), (100, 100)) | {"spotting_res": found}
    told["parsing_res_list"][0]["block_label"] = "spotting"
    ((line,),) = (lines for lines in lines_of({"prunedResult": told}, Image.new("L", (100, 100), 255), 1.0))
    assert (line.text, line.box) == ("caf\u00e9 a", Box(4, 6, 26, 18))


def test_codes_end_before_characters_do():
    codes = Codes()
    assert codes.encode("aba") == b"\0\1\0\2\0\1"
    everything = "".join(chr(number) for number in range(0x10000, 0x21000))
    assert codes.encode(everything)[-2:] == b"\0\0", "what has no code is the replacement character"
    assert true_type()[:4] == b"\0\1\0\0"


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_turned_and_cropped_pages(tmp_path, turn):
    """The parser sees a page as a reader shows it; the text must land there in the page's own coordinates."""
    path = tmp_path / "a.pdf"
    with pikepdf.new() as pdf:
        page = pdf.add_blank_page(page_size=(500, 700))
        page.obj.CropBox, page.obj.Rotate = pikepdf.Array([30, 50, 430, 650]), turn
        page.contents_add(b"q 2 0 0 2 90 80 cm")  # never restored: our text must not be moved by it
        pdf.save(path)
    width, height = (400, 600) if turn % 180 == 0 else (600, 400)
    box = (40, 60, 340, 80)
    (shown,) = made(path, "PDF", one_block("Well 7 failed", box, (width, height)))
    assert shown.get_size() == (width, height)
    said = shown.get_textpage()
    assert said.get_text_bounded().strip() == "Well 7 failed"
    corners = []
    for index in (0, said.count_chars() - 1):
        left, bottom, right, top = said.get_charbox(index, loose=True)
        for x, y in ((left, bottom), (right, top)):
            across, along = ctypes.c_int(), ctypes.c_int()
            pypdfium2.raw.FPDF_PageToDevice(shown, 0, 0, width, height, 0, x, y, across, along)
            corners.append((across.value, along.value))
    found = (
        min(x for x, _ in corners),
        min(y for _, y in corners),
        max(x for x, _ in corners),
        max(y for _, y in corners),
    )
    assert found == pytest.approx(box, abs=4)


def test_a_page_with_large_units_has_its_lines_on_their_ink(tmp_path):
    """A unit of an inch: the page has 8 by 12 of them."""
    plain, inches = tmp_path / "plain.pdf", tmp_path / "inches.pdf"
    for path, unit in ((plain, 1), (inches, 72)):
        with pikepdf.new() as pdf:
            page = pdf.add_blank_page(page_size=(600 / unit, 840 / unit))
            page.obj.UserUnit = unit
            shapes = b"".join(b"%d %d 300 12 re f\n" % (60, 840 - top) for top in (112, 212))
            page.Contents = pdf.make_stream(b"%f 0 0 %f 0 0 cm\n" % (1 / unit, 1 / unit) + shapes)
            pdf.save(path)
    block = one_block("The first of them\nand the second", (100, 180, 800, 450), (1200, 1680))
    found = []
    for path, unit in ((plain, 1), (inches, 72)):
        said = made(path, "PDF", block)[0].get_textpage()
        found.append([unit * side for side in said.get_charbox(said.get_text_bounded().index("second"))])
    assert found[0] == pytest.approx(found[1], abs=3)
    assert 840 - 215 < found[1][1] < 840 - 195


@pytest.mark.parametrize(
    ("angle", "flattened", "found"), [(-1, False, "Well 7"), (0, False, "Well 7"), (90, False, ""), (0, True, "")]
)
def test_a_page_that_was_turned_or_flattened_has_no_layer(tmp_path, angle, flattened, found):
    """Its boxes are of another picture than the document's."""
    Image.new("L", (400, 300), 255).save(tmp_path / "a.png")
    with pikepdf.new() as pdf:
        pdf.add_blank_page(page_size=(400, 300))
        pdf.save(tmp_path / "a.pdf")
    done = {"angle": angle, "model_settings": {"use_doc_unwarping": flattened}}
    page = one_block("Well 7", (40, 60, 240, 80), (300, 400)) | {"doc_preprocessor_res": done}
    for name, format in (("a.png", "PNG"), ("a.pdf", "PDF")):
        (shown,) = made(tmp_path / name, format, page)
        assert text_of(shown).strip() == found


@pytest.mark.parametrize(("turn", "box"), [(0, (45, 80, 200, 110)), (180, (200, 490, 355, 520))])
def test_text_of_the_page_itself_is_not_doubled(tmp_path, turn, box):
    path = tmp_path / "a.pdf"
    with pikepdf.new() as pdf:
        page = pdf.add_blank_page(page_size=(400, 600))
        font = pikepdf.Dictionary(Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica)
        page.add_resource(font, pikepdf.Name.Font, pikepdf.Name.F)
        page.contents_add(b"BT /F 12 Tf 50 500 Td (Born digital) Tj ET")
        page.rotate(turn, relative=False)
        pdf.save(path)
    told = one_block("Born digital", box, (400, 600))
    told["parsing_res_list"].append(block_of("text", "In a picture", (50, 300, 300, 320)))
    (shown,) = made(path, "PDF", told)
    assert sorted(words(text_of(shown))) == ["Born", "In", "a", "digital", "picture"]


def test_only_the_named_pages_and_those_without_text(tmp_path):
    path = tmp_path / "a.pdf"
    with pikepdf.new() as pdf:
        for number in range(5):
            pdf.add_blank_page(page_size=(300 + number, 400))
        pdf.save(path)
    pdf = made(path, "PDF", one_block("two", (10, 10, 90, 30), (301, 400)), {"parsing_res_list": []}, first=2)
    assert [(page.get_width(), text_of(page).strip()) for page in pdf] == [(301, "two"), (302, "")]
    entry = {"prunedResult": one_block("two", (10, 10, 90, 30), (301, 400)), "markdown": {"text": ""}}
    document = ResultDocument.from_answer("a.pdf", {"layoutParsingResults": [entry]})
    document = dataclasses.replace(document, source=Source(path, "PDF"), numbers=[2], missing=[4])
    pdf = pypdfium2.PdfDocument(convert(document, "pdf"))
    assert [(page.get_width(), text_of(page).strip()) for page in pdf] == [(301, "two"), (303, "")], "one is not read"


def test_vertical_text_and_joined_blocks(tmp_path):
    """Columns run from the right to the left; text that PaddleX read from two boxes lies in both."""
    path = tmp_path / "a.png"
    image = Image.new("L", (400, 400), 255)
    draw = ImageDraw.Draw(image)
    for column in (300, 250):
        draw.rectangle((column, 50, column + 20, 250), fill=0)
    for box in ((20, 300, 180, 315), (220, 300, 380, 315)):
        draw.rectangle(box, fill=0)
    image.save(path)
    page = one_block("天地玄黄宇宙洪荒", (240, 40, 330, 260), (400, 400), "vertical_text")
    page["parsing_res_list"] += [
        block_of("text", "left half right half", (15, 295, 185, 320), group_id=7),
        block_of("text", "", (215, 295, 385, 320), group_id=7),
    ]
    (shown,) = made(path, "PNG", page)
    said, scale = shown.get_textpage(), shown.get_width() / 400
    height = shown.get_height()

    def inside(left: float, top: float, right: float, bottom: float) -> str:
        found = said.get_text_bounded(left * scale, height - bottom * scale, right * scale, height - top * scale)
        return "".join(found.split())

    assert (inside(295, 40, 330, 260), inside(240, 40, 280, 260)) == ("天地玄黄", "宇宙洪荒")
    assert (inside(15, 290, 190, 325), inside(210, 290, 390, 325)) == ("lefthalf", "righthalf")


def picture(mode: str) -> Image.Image:
    image = Image.new("RGB", (300, 200), (250, 250, 250))
    image.paste((200, 30, 30), (0, 0, 150, 100))
    if mode == "RGBA":
        image.putalpha(Image.linear_gradient("L").resize(image.size))
    return Image.new("I;16", image.size, 40_000) if mode == "I;16" else image.convert(mode)


OPTIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("1", "TIFF"): {"compression": "group4"},
    ("RGB", "BMP"): {"dpi": (144, 144)},
}


def difference(first: Image.Image, second: Image.Image) -> int:
    """The largest difference of a level, of parts of ten pixels."""
    small = ImageChops.difference(first, second).resize((30, 20), Image.Resampling.BOX)
    return max(small.tobytes())


@pytest.mark.parametrize(
    ("mode", "format", "grows"),
    [("RGB", "JPEG", 1.0), ("L", "JPEG", 1.0), ("CMYK", "JPEG", 1.0), ("RGB", "PNG", 1.0), ("P", "PNG", 1.0),
     ("1", "PNG", 1.0), ("RGBA", "PNG", 2.0), ("1", "TIFF", 1.0), ("L", "TIFF", 1.0), ("I;16", "PNG", 1.0),
     ("RGB", "WEBP", 4.0), ("RGB", "BMP", 0.1)],
)  # fmt: skip
def test_pictures_of_any_kind_become_pages(tmp_path, mode, format, grows):
    path, image = tmp_path / "a", picture(mode)
    image.save(path, format, **OPTIONS.get((mode, format), {}))
    data = made_bytes(path, format, one_block("Well 7", (10, 110, 150, 140), image.size))
    assert len(data) < path.stat().st_size * grows + 4000
    (shown,) = pypdfium2.PdfDocument(data)
    assert shown.get_size() == pytest.approx((150, 100), abs=0.1) and words(text_of(shown)) == ["Well", "7"]
    expected = image.convert("RGB")
    if mode == "RGBA":
        expected = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    elif mode == "I;16":
        expected = Image.new("RGB", image.size, (155, 155, 155))
    found = shown.render(scale=2).to_pil().convert("RGB")
    assert difference(found, expected) < (60 if mode == "CMYK" else 30)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_that_lie_on_their_side(tmp_path, orientation, format):
    path, exif = tmp_path / "a", Image.Exif()
    exif[0x0112] = orientation
    picture("RGB").save(path, format, exif=exif)
    with Image.open(path) as stored:
        stored.load()
        upright = ImageOps.exif_transpose(stored).convert("RGB")
    (shown,) = made(path, format, one_block("Well 7", (10, 110, 150, 140), upright.size))
    found = shown.render(scale=2).to_pil().convert("RGB")
    assert found.size == upright.size
    assert difference(found, upright) < 30


def test_frames_of_a_tiff_are_pages_of_their_size(tmp_path):
    path = tmp_path / "a.tif"
    first, second = Image.new("1", (1700, 2200), 1), Image.new("L", (400, 300), 255)
    first.save(path, save_all=True, append_images=[second], dpi=(200, 200))
    pdf = made(
        path, "TIFF", one_block("one", (10, 10, 90, 30), (1700, 2200)), one_block("two", (10, 10, 90, 30), (400, 300))
    )
    assert [text_of(page).strip() for page in pdf] == ["one", "two"]
    assert pdf[0].get_size() == pytest.approx((612, 792))


def test_pages_that_nobody_can_open_cost_the_others_nothing(tmp_path):
    read = one_block("one", (1, 1, 49, 30), (50, 50))
    lacking: dict[str, Any] = {"parsing_res_list": []}
    tiff, pdf = tmp_path / "a.tif", tmp_path / "a.pdf"
    tiff.write_bytes(base64.b64decode(samples.tiff((50, 50), (50, 50)))[:-7500])  # all pixels of the second
    with pikepdf.new() as made_pdf:
        made_pdf.add_blank_page(), made_pdf.add_blank_page()
        made_pdf.save(pdf, object_stream_mode=pikepdf.ObjectStreamMode.disable)
    pdf.write_bytes(b"/Type /Odd".join(pdf.read_bytes().rsplit(b"/Type /Page", 1)))
    for path, format in ((tiff, "TIFF"), (pdf, "PDF")):
        with pikepdf.open(io.BytesIO(made_bytes(path, format, read, lacking))) as searchable:
            assert len(searchable.pages) == 2 and "/Font" in searchable.pages[0].Resources
        with pytest.raises(UneditablePdf):
            made(path, format, read, read)


@pytest.mark.parametrize("size", [(40, 2), (1, 8000), (8000, 1), (1, 1)])
def test_pictures_of_extreme_size_become_pages_that_readers_take(tmp_path, size):
    Image.new("RGB", size, "white").save(tmp_path / "a", "PNG")
    (shown,) = made(tmp_path / "a", "PNG", one_block("Well", (0, 0, *size), size))
    assert all(3 <= side <= 14_400 for side in shown.get_size()) and words(text_of(shown)) == ["Well"]


@pytest.mark.parametrize(
    ("said", "pixels", "points"),
    [
        (None, (1440, 2880), (720, 1440)),
        (72, (1440, 2880), (720, 1440)),  # what programs write that do not know
        (75, (750, 1500), (720, 1440)),
        (300, (3000, 1500), (720, 360)),
        (2400, (24_000, 2_400), (720, 72)),
        (2401, (1440, 2880), (720, 1440)),
        (IFDRational(0, 0), (1440, 2880), (720, 1440)),
        (IFDRational(300, 0), (1440, 2880), (720, 1440)),
        (math.inf, (1440, 2880), (720, 1440)),
        (300, (6, 300), (3, 150)),  # no side is shorter than readers take
        (100, (40_000, 4_000), (14_400, 1_440)),  # nor longer
    ],
)
def test_a_picture_is_as_large_as_it_says(said: Any, pixels: tuple[int, int], points: tuple[float, float]):
    image = Image.new("1", (1, 1))
    if said is not None:
        image.info["dpi"] = (said, said)
    assert _points(image, pixels) == pytest.approx(points)


def test_fax_pages_have_the_shape_of_their_paper_and_cut_pictures_are_shown(tmp_path):
    Image.new("1", (1728, 1143), 1).save(tmp_path / "fax", "TIFF", dpi=(204, 98), compression="group4")
    (fax,) = made(tmp_path / "fax", "TIFF", one_block("Well 7", (10, 10, 500, 90), (1728, 2379)))
    assert fax.get_size() == pytest.approx((610, 840), abs=1) and words(text_of(fax)) == ["Well", "7"]
    picture("RGB").save(tmp_path / "cut", "PNG")
    data = (tmp_path / "cut").read_bytes()
    (tmp_path / "cut").write_bytes(data[: len(data) - 30])
    (cut,) = made(tmp_path / "cut", "PNG", one_block("Well 7", (10, 110, 150, 140), (300, 200)))
    seen, top = cut.render(scale=2).to_pil().convert("RGB"), (0, 0, 300, 50)
    assert difference(seen.crop(top), picture("RGB").crop(top)) < 30


@pytest.mark.parametrize("content", [b"Q 2 0 0 2 40 40 cm Q Q", b"q 2 0 0 2 40 40 cm", b"Q", b"q q"])
def test_a_page_stays_as_it_was_although_its_graphics_states_are_not_in_balance(tmp_path, content):
    path = tmp_path / "a.pdf"
    with pikepdf.new() as pdf:
        page = pdf.add_blank_page(page_size=(400, 600))
        page.contents_add(b"1 0 0 rg " + content + b" 50 50 60 40 re f")
        pdf.save(path)
    before = pypdfium2.PdfDocument(path)[0].render().to_pil()
    (after,) = made(path, "PDF", one_block("Well 7", (10, 110, 150, 140), (400, 600)))
    assert ImageChops.difference(before, after.render().to_pil()).getbbox() is None
    assert words(text_of(after)) == ["Well", "7"]


def test_an_owners_restrictions_stay(tmp_path):
    path = tmp_path / "a.pdf"
    with pikepdf.new() as pdf:
        pdf.add_blank_page(page_size=(300, 400))
        pdf.save(path, encryption=pikepdf.Encryption(owner="secret", allow=pikepdf.Permissions(modify_other=False)))
    data = made_bytes(path, "PDF", one_block("Well 7", (10, 10, 90, 30), (300, 400)))
    with pikepdf.open(io.BytesIO(data)) as pdf:
        assert pdf.is_encrypted and not pdf.allow.modify_other
    assert text_of(pypdfium2.PdfDocument(data)[0]).strip() == "Well 7"


def test_a_pdf_that_cannot_be_changed_is_named(tmp_path):
    path = tmp_path / "a.pdf"
    path.write_bytes(b"%PDF-1.4\nnothing of a PDF")
    with pytest.raises(UneditablePdf, match="the PDF is damaged"):
        made(path, "PDF", {"parsing_res_list": []})


TWO_DIRECTIONS = (
    "שלום עולם טוב מאוד", "מחיר 250 שקלים ועוד 13.5 אחוז", "שלום (עולם) טוב", "שָׁלוֹם עֲלֵיכֶם לְכֻלָּם", "דף 3 מתוך 12",
    "ספר על Machine Learning in Python מאת דוד", "שלום Abc Def Ghi Jkl", "12 ABC שלום", "צה״ל “שלום לך”",
    "مرحبا بالعالم (مثال).", "بسم الله 123 و ٤٥٦ كتاب", "از می‌روم به خانه", "see http://a.example/?a=1&b=2 שלום",
    "the word שלום here", "Call (שלום) now", "the words שלום עולם are here", "a א b ב c ג",
)  # fmt: skip


def one_line(tmp_path: Path, text: str, width: int = 300) -> bytes:
    Image.new("L", (400, 60), 255).save(tmp_path / "line.png")
    return made_bytes(tmp_path / "line.png", "PNG", one_block(text, (20, 20, 20 + width, 40), (400, 60)))


@pytest.mark.parametrize("text", TWO_DIRECTIONS)
def test_lines_from_right_to_left_are_copied_as_they_read(tmp_path, text):
    data = one_line(tmp_path, text)
    (shown,) = pypdfium2.PdfDocument(data)
    assert text_of(shown) == text
    for word in words(text):
        assert shown.get_textpage().search(word, match_case=True).get_next()


def left_of(said: pypdfium2.PdfTextPage, word: str) -> float:
    found = said.search(word).get_next()
    assert found
    boxes = [said.get_charbox(index, loose=True) for index in range(found[0], sum(found))]
    assert max(box[2] for box in boxes) - min(box[0] for box in boxes) < 40, "its letters are together"
    return min(box[0] for box in boxes)


@pytest.mark.parametrize(
    ("text", "printed"),  # from left to right
    [("ספר ישן על Deep Learning 12 מאת דוד", "דוד מאת Deep Learning על ישן ספר"),
     ("the words שלום עולם 12 are", "the words עולם שלום are")],
)  # fmt: skip
def test_words_from_right_to_left_are_found_where_they_are_printed(tmp_path, text, printed):
    data = one_line(tmp_path, text)
    (shown,) = pypdfium2.PdfDocument(data)
    places = [left_of(shown.get_textpage(), word) for word in words(printed)]
    assert places == sorted(places)
    assert places[0] == pytest.approx(10, abs=1)


@needs("poppler-utils")
def test_poppler_has_words_from_right_to_left_where_they_are_printed(tmp_path):
    (tmp_path / "a.pdf").write_bytes(one_line(tmp_path, TWO_DIRECTIONS[0]))
    assert pdftotext(tmp_path / "a.pdf").strip("\u202a\u202b\u202c\n\f") == TWO_DIRECTIONS[0]
    (tmp_path / "a.pdf").write_bytes(one_line(tmp_path, "ספר ישן על Deep Learning מאת דוד"))
    found = re.findall(r'xMin="(.+?)".*>(.*?)</word>', pdftotext("-bbox", tmp_path / "a.pdf"))
    in_order = [word for _, word in sorted((float(left), word) for left, word in found)]
    assert in_order == [word if word.isascii() else word[::-1] for word in "דוד מאת Deep Learning על ישן ספר".split()]


def pdftotext(*arguments: str | Path) -> str:
    return subprocess.run(["pdftotext", *arguments, "-"], capture_output=True, text=True, check=True).stdout


def test_lines_from_left_to_right_are_one_string():
    assert pieces("Well 7 (failed), 12%: 检索", leftwards=False) == [(0, "Well 7 (failed), 12%: 检索")]
