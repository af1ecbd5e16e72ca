# SPDX-License-Identifier: Apache-2.0
"""What the VLM read comes out of every format as it was read, whatever signs are in it.

tests/support/printed_texts.py makes the texts; PRINTED_TEXTS says how many (300).
"""

from __future__ import annotations

import html
import io
import json
import re
import subprocess
import types
import unicodedata
from collections.abc import Callable, Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pypdfium2
import pytest
from openpyxl.utils.escape import unescape
from paddlex.inference.common.result.converter.markdown_format_funcs import format_para_title
from PIL import Image

from docparser.convert.document import ResultDocument, Source
from docparser.convert.names import Format, How
from docparser.convert.parts import CAPTIONS, markdown_html
from docparser.outline import TITLES
from tests.support.converted import convert
from tests.support.entries import block_of, entry_of
from tests.support.printed_texts import COUNT, labelled, texts
from tests.support.system_packages import needs

ON_A_PAGE = 25
LEASE = ("7. The tenant pays.", "8. The landlord mends.", "9. Both sign.", "12. Twelve", "13. Thirteen", "3) three",
         "1984. It was", "- 5 degrees", "+ 5 degrees")  # fmt: skip
BIDI = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def page(blocks: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """An entry, with the Markdown that the words alone would be."""
    listed = [
        block_of(label, content, (40, 40 * row + 4, 960, 40 * row + 34)) for row, (label, content) in enumerate(blocks)
    ]
    return entry_of(listed, width=1000, height=40 * len(listed) + 40)


def pages(blocks: list[tuple[str, str]]) -> list[dict[str, Any]]:
    return [page(blocks[at : at + ON_A_PAGE]) for at in range(0, len(blocks), ON_A_PAGE)]


def document(entries: list[dict[str, Any]]) -> ResultDocument:
    return ResultDocument.from_answer("signs.pdf", {"layoutParsingResults": entries})


def one_line(text: str) -> str:
    return " ".join(text.split())


class Reader(HTMLParser):
    """The texts of a page's elements."""

    BLOCKS = ("p", "div", "pre", "td", "th", *(f"h{level}" for level in range(1, 7)))

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self._in_math = False
        self._tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tags.add(tag)
        self._in_math = self._in_math or tag == "math"
        if tag in self.BLOCKS:
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_math = self._in_math and tag != "math"

    def handle_data(self, data: str) -> None:
        if self.found and not self._in_math:
            self.found[-1] += data

    @property
    def tags(self) -> set[str]:
        return self._tags


def read_html(written: bytes) -> Reader:
    reader = Reader()
    reader.feed(written.decode().partition("<body>")[2])
    reader.close()
    return reader


def same(found: Iterable[str], expected: Iterable[str], clean: Callable[[str], str] = one_line) -> None:
    found, expected = [text for text in map(clean, found) if text], [clean(text) for text in expected]
    assert found == expected


def test_html():
    blocks = labelled()
    reader = read_html(convert(document(pages(blocks)), "html"))
    same(reader.found, (text for _, text in blocks))
    assert reader.tags <= {"p", "div", "pre", "hr", "h1", "h2", "h3", "h4", "h5", "h6"}


def test_html_beside_a_formula():
    blocks = labelled(" with $x^2$")
    reader = read_html(convert(document(pages(blocks)), "html"))
    same(reader.found, (text.removesuffix(" $x^2$") for _, text in blocks))
    assert "math" in reader.tags


def escaped(entries: list[dict[str, Any]]) -> str:
    return convert(document(entries), "md", How(escape_markdown=True)).decode()


def test_escaped_markdown_as_a_reader_of_markdown_shows_it():
    blocks = labelled()
    reader = read_html(b"<body>" + markdown_html(escaped(pages(blocks))).encode())
    same(reader.found, (text for _, text in blocks))
    assert reader.tags <= {"p", "pre", "code", "h1", "h2", "h3", "h4", "h5", "h6"}


def test_escaped_markdown_keeps_the_depths_of_code():
    code = "for x in y:\n    if x < 1:\n\n        print('```', '````')"
    said = escaped([page([("algorithm", code)])])
    assert said == f"`````\n{code}\n`````\n"
    assert read_html(b"<body>" + markdown_html(said).encode()).found == [f"{code}\n\n"]
    said = escaped([page([("algorithm", "while $x_1$:\n\tdo *y*\n  end")])])
    assert said == f"while $x_1$:\n\n{4 * '&nbsp;'}do \\*y\\*\n\n&nbsp;&nbsp;end\n"
    shown = read_html(b"<body>" + markdown_html(said).encode()).found
    assert [line.rstrip("\n") for line in shown[1:]] == ["\xa0\xa0\xa0\xa0do *y*", "\xa0\xa0end"]


def test_escaped_markdown_keeps_formulas_tables_and_pictures():
    said, entries = cells()
    same(read_html(b"<body>" + markdown_html(escaped(entries)).encode()).found, said)
    assert escaped([page([("figure_title", "Figure 1\nof two lines"), ("text", "Two\nlines")])]) == (
        "Figure 1 of two lines\n\nTwo\n\nlines\n"
    )
    assert escaped([page([("text", "a_b with $x^2_i$"), ("display_formula", "$$y_1$$")])]) == (
        "a\\_b with $x^2_i$\n\n$$y_1$$\n"
    )
    table = "<table><tr><td>Case $p&lt;q$ holds, \\(a &amp; b\\) too</td></tr></table>"
    assert escaped([page([("table", table)])]) == table.replace("\\(", "$").replace("\\)", "$") + "\n"
    entry = page([("image", ""), ("text", "2*3*4")])
    entry["markdown"]["images"] = {"imgs/img_in_image_box_40_4_960_34.jpg": "MTIz"}
    assert '<img src="imgs/img_in_image_box_40_4_960_34.jpg"' in escaped([entry])


@pytest.mark.parametrize("line", [*LEASE, "# a", "a #", "a ##", "#", "+", "1) x", "12345678901. x", "-", "=="])
def test_no_line_begins_or_ends_as_markup(line: str):
    for label in ("text", "paragraph_title"):
        said = escaped([page([(label, line)])])
        same(read_html(b"<body>" + markdown_html(said).encode()).found, [line])


def word_paragraphs(written: bytes) -> list[str]:
    return [paragraph.text for paragraph in docx.Document(io.BytesIO(written)).paragraphs]


def test_word():
    blocks = labelled()
    written = convert(document(pages(blocks)), "docx")
    same(word_paragraphs(written), (text for _, text in blocks))
    styles = {paragraph.style.name for paragraph in docx.Document(io.BytesIO(written)).paragraphs if paragraph.style}
    assert all(style == "Normal" or style.startswith("Heading") for style in styles), "no list numbers anew"


def test_word_beside_a_formula():
    blocks = labelled(" with $x^2$")
    same(word_paragraphs(convert(document(pages(blocks)), "docx")), (text.removesuffix(" $x^2$") for _, text in blocks))


def test_chunks():
    blocks = labelled()
    titles: list[str] = []
    said: list[str] = []
    for line in convert(document(pages(blocks)), "chunks").decode().splitlines():
        chunk = json.loads(line)
        said += chunk["text"].split("\n\n") if chunk["kind"] != "heading" else []
        titles += chunk["headings"]
    same(said, (text for label, text in blocks if label not in TITLES))
    assert {one_line(text) for label, text in blocks if label in TITLES} == set(titles)


def cells() -> tuple[list[str], list[dict[str, Any]]]:
    """Tables of three columns, as PaddleX writes them: cells are escaped."""
    said = texts(COUNT - COUNT % 3)
    rows = ["".join(f"<td>{html.escape(text)}</td>" for text in said[at : at + 3]) for at in range(0, len(said), 3)]
    return said, [page([("table", f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>")])]


def test_tables_of_all_formats():
    said, entries = cells()
    made = document(entries)
    same(read_html(convert(made, "html")).found, said)
    (table,) = docx.Document(io.BytesIO(convert(made, "docx"))).tables
    same((cell.text for row in table.rows for cell in row.cells), said)
    (sheet,) = openpyxl.load_workbook(io.BytesIO(convert(made, "xlsx"))).worksheets
    shown = [f"{cell.value:,}" if cell.data_type == "n" else unescape(cell.value) for row in sheet.rows for cell in row]
    same(shown, said)
    assert all(cell.data_type in "sn" for row in sheet.rows for cell in row)
    lines = [json.loads(line)["text"] for line in convert(made, "chunks").decode().splitlines()]
    rows = [re.split(r" (?<!\\)\| ", row[2:-2]) for row in "\n".join(lines).splitlines() if row[:2] == "| "]
    assert {one_line(text).replace("|", "\\|") for text in said} <= {text for row in rows for text in row}


def test_a_text_that_is_the_pages_own_has_no_formulas():
    """The file itself says its letters, and the VLM was not asked: LaTeX in it is printed LaTeX."""
    said = r"Write \(x^2\), $y_1$ or $$z = 1$$."
    entry = page([("text", said), ("table", f"<table><tr><td>{said}</td></tr></table>"), ("text", "and $x^2$")])
    for block in entry["prunedResult"]["parsing_res_list"][:2]:
        block |= {"source": "page", "agreement": None}
    made = document([entry])
    reader = read_html(convert(made, "html"))
    same(reader.found, [said, said, "and"])
    assert "math" in reader.tags
    assert escaped([entry]).count("\\$y\\_1\\$") == 1
    assert convert(made, "chunks").decode().count(json.dumps(said)[1:-1]) == 2
    (sheet,) = openpyxl.load_workbook(io.BytesIO(convert(made, "xlsx"))).worksheets
    assert sheet["A1"].value == said


def searchable(tmp_path: Path, blocks: list[tuple[str, str]]) -> bytes:
    """Of white pictures, so that no ink tells where the lines are."""
    entries = pages(blocks)
    sizes = [(int(entry["prunedResult"]["width"]), int(entry["prunedResult"]["height"])) for entry in entries]
    first, *rest = [Image.new("L", size, 255) for size in sizes]
    first.save(tmp_path / "signs.tif", save_all=True, append_images=rest)
    made = ResultDocument("signs", document(entries).pages, {"layoutParsingResults": entries},
                          Source(tmp_path / "signs.tif", "TIFF"))  # fmt: skip
    return convert(made, "pdf")


def letters(text: str) -> str:
    """Without blanks, for a layer's lines are broken; and without what tells the direction of writing, which readers
    of PDFs use and leave out."""
    return "".join(BIDI.sub("", unicodedata.normalize("NFKC", text)).split())


LEFT_TO_RIGHT = [
    one for one in labelled() if not re.search("[\u0590-\u07ff\u202e]", one[1]) and one[0] != "vertical_text"
]


def turned(text: str) -> str:
    """Signs that readers mirror beside letters from right to left."""
    return text.translate(str.maketrans("([{<“", ")]}>”"))


def test_searchable_pdf_as_pdfium_reads_it(tmp_path: Path):
    found = "".join(
        view.get_textpage().get_text_bounded() for view in pypdfium2.PdfDocument(searchable(tmp_path, LEFT_TO_RIGHT))
    )
    assert letters(found) == letters("".join(text for _, text in LEFT_TO_RIGHT))


def test_searchable_pdf_has_every_letter_of_any_direction(tmp_path: Path):
    views = pypdfium2.PdfDocument(searchable(tmp_path, labelled()))
    found = "".join(view.get_textpage().get_text_bounded() for view in views)
    assert sorted(turned(letters(found))) == sorted(turned(letters("".join(text for _, text in labelled()))))


def test_searchable_pdf_has_lines_of_two_directions_in_order(tmp_path: Path):
    """One on a page: a short text is drawn so broad here that PDFium takes the next line's for its neighbours."""
    for label, text in labelled():
        if re.search("[\u0590-\u07ff\u200f]", text) and label != "vertical_text":
            (view,) = pypdfium2.PdfDocument(searchable(tmp_path, [(label, text)]))
            assert letters(view.get_textpage().get_text_bounded()) == letters(text)


@needs("poppler-utils")
def test_searchable_pdf_as_poppler_reads_it(tmp_path: Path):
    (tmp_path / "signs.pdf").write_bytes(searchable(tmp_path, LEFT_TO_RIGHT))
    words = ["pdftotext", "-raw", str(tmp_path / "signs.pdf"), "-"]
    found = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout
    assert letters(found) == letters("".join(text for _, text in LEFT_TO_RIGHT))


@needs("libreoffice-writer-nogui")
def test_word_as_libreoffice_reads_it(tmp_path: Path):
    blocks = labelled()
    (tmp_path / "signs.docx").write_bytes(convert(document(pages(blocks)), "docx"))
    home = f"-env:UserInstallation=file://{tmp_path}/home"
    words = ["soffice", home, "--headless", "--convert-to", "txt:Text (encoded):UTF8", "--outdir", str(tmp_path)]
    done = subprocess.run(
        [*words, str(tmp_path / "signs.docx")], capture_output=True, text=True, timeout=600, check=False
    )
    assert (tmp_path / "signs.txt").is_file(), done.stdout + done.stderr
    same((tmp_path / "signs.txt").read_text("utf-8-sig").split("\n"), (text for _, text in blocks))


HEADINGS = ("Ipsum labore ut consectetur.", "3D printing", "2.Method", "4. Results...", "A [b](c) d.", "第三章 结论")


def test_two_headings_that_differ_by_a_full_stop_are_each_as_printed():
    entry = page([("paragraph_title", "Note."), ("paragraph_title", "Note")])
    entry["markdown"]["text"] = "## Note\n\n## Note"
    assert convert(document([entry]), "md").decode() == "## Note.\n\n## Note\n"


@pytest.mark.parametrize("heading", HEADINGS)
def test_headings_of_the_markdown_are_as_printed(heading: str):
    """PaddleX's own function writes the heading that goes in."""
    block = types.SimpleNamespace(content=heading, title_level=None)
    entry = page([("paragraph_title", heading), ("text", "Words.")])
    entry["markdown"]["text"] = f"{format_para_title(block)}\n\nWords."
    assert convert(document([entry]), "md").decode() == f"## {heading}\n\nWords.\n"


def test_a_section_that_was_taken_for_a_title_keeps_its_level():
    """The layout model takes the first heading of a page for the document's title; the number says what it is."""
    titles = {"Opening the Bakery": 1, "2024 Report": 1, "3 Baking order": 2, "4.2. Washing up": 3}
    pages = []
    for title in titles:
        entry = page([("doc_title", title), ("text", "Words.")])
        entry["markdown"]["text"] = f"# {title}\n\nWords."
        pages.append(entry)
    written = document(pages)
    markdown = convert(written, "md").decode()
    assert [line for line in markdown.splitlines() if "#" in line] == [f"{'#' * n} {one}" for one, n in titles.items()]
    html = convert(written, "html").decode()
    assert all(f"<h{level}>{title}" in html for title, level in titles.items())


def test_a_title_that_is_printed_again_is_no_heading():
    title, words = "Annual Report 2024", "\n\nWords.\n"
    entries = [page([("doc_title", title), ("text", "Words.")]) for _ in range(3)]
    for entry in entries:
        entry["markdown"]["text"] = f"# {title}{words}"
    once = "\n".join([f"# {title}{words}", *[f"{title}{words}"] * 2])
    assert convert(document(entries), "md").decode() == escaped(entries) == once
    by_page = ResultDocument.from_answer("a.pdf", {"layoutParsingResults": entries}, outline=False)
    assert convert(by_page, "md").decode().count(f"# {title}") == 3


@pytest.mark.parametrize("format", ["html", "docx"])
def test_printed_numbers_stay(format: Format):
    written = convert(document([page([("text", "\n".join(LEASE)), ("text", LEASE[0])])]), format)
    said = read_html(written).found if format == "html" else word_paragraphs(written)
    same(said, [*LEASE, LEASE[0]])


def test_a_vlm_that_was_asked_for_markdown_is_read_as_markdown():
    entry = page([("text", "The **mean**:\n\n7. seven\n9. nine"), ("table", "| a<br> | b |\n|---|---|\n| 1 | 2 |")])
    entry["prunedResult"]["model_settings"] = {"prompt_label": "document"}
    written = convert(document([entry]), "html").decode()
    assert "<strong>mean</strong>" in written and '<li value="7">' in written and '<li value="9">' in written
    said = word_paragraphs(convert(document([entry]), "docx"))
    assert [text for text in said if text] == ["The mean:", "7. seven", "9. nine"]
    (sheet,) = openpyxl.load_workbook(io.BytesIO(convert(document([entry]), "xlsx"))).worksheets
    assert [[cell.value for cell in row] for row in sheet.rows] == [["a", "b"], [1, 2]]


def test_what_formatted_blocks_have_around_them_is_no_text():
    blocks = [("paragraph_title", "## # 12"), ("figure_title", '<div style="text-align: center;"><b> a</div>\n')]
    entry = page(blocks)
    entry["prunedResult"]["model_settings"] = {"format_block_content": True}
    same(read_html(convert(document([entry]), "html")).found, ["# 12", "<b> a"])
    assert set(CAPTIONS) >= {"figure_title"}
