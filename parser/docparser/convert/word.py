# SPDX-License-Identifier: Apache-2.0
"""A document as a Word file: headings, paragraphs, lists, tables, pictures in their places, formulas as Word's own.

Tables are written as XML, because python-docx looks through all cells for each one that it is asked for.
"""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Callable, Iterable
from html.parser import HTMLParser
from typing import Any, BinaryIO
from xml.etree import ElementTree

import docx
from docx.enum.text import WD_ALIGN_PARAGRAPH, WD_BREAK
from docx.image.exceptions import UnrecognizedImageError
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import OxmlElement, parse_xml
from docx.oxml.ns import qn
from docx.shared import Emu
from docx.text.paragraph import Paragraph
from docx.text.run import Run

from docparser.convert.document import ResultPage
from docparser.convert.formulas import Formulas, mathml_of
from docparser.convert.names import writable
from docparser.convert.omml import Untranslatable, omml
from docparser.convert.parts import CellReader
from docparser.convert.to_html import body
from docparser.html_tables import Cell, Table
from docparser.places.atoms import is_right_to_left

MOST_COLUMNS = 63  # Word opens no table with more
TEXT_WIDTH = 9360  # twentieths of a point: 6.5 inches

Fill = Callable[[Any, Cell], None]  # writes a cell's text into the ``w:p`` that it gets
HEADINGS = {f"h{level}": f"Heading {level}" for level in range(1, 7)}
BLOCKS = {"p", "div", "blockquote", "pre", "figure", "figcaption", "dl", "dt", "dd", "ul", "ol", "li", *HEADINGS}
FONTS = {"strong": "bold", "b": "bold", "em": "italic", "i": "italic", "u": "underline", "del": "strike", "s": "strike",
         "sup": "superscript", "sub": "subscript"}  # fmt: skip
UNSEEN = {"script", "style", "head", "title"}
SPECIAL = re.compile("\ue000([0-9]+)\ue001|\ue002([^\ue003]*)\ue003")  # a formula's mark, a picture in a table's cell
PICTURE_SHARE = 0.8  # of the text's width, for a picture that does not say
# Of a paragraph's properties those that stand behind `bidi` (ECMA-376, CT_PPrBase).
BEHIND_BIDI = tuple(f"w:{name}" for name in (
    "adjustRightInd", "snapToGrid", "spacing", "ind", "contextualSpacing", "mirrorIndents", "suppressOverlap", "jc",
    "textDirection", "textAlignment", "textboxTightWrap", "outlineLvl", "divId", "cnfStyle", "rPr", "sectPr",
    "pPrChange"))  # fmt: skip
LONGEST_PROPERTY = 255  # characters
OF_THE_TEMPLATE = (RELATIONSHIP_TYPE.EXTENDED_PROPERTIES, RELATIONSHIP_TYPE.THUMBNAIL)
MOST_LISTS = 3  # of python-docx' template, one inside the other


def table_element(table: Table, fill: Fill) -> Any:
    """``w:tbl`` with merged cells where a cell covers several, header cells' rows repeated on each page."""
    element = _node("tbl")
    properties = _in(element, "tblPr")
    _in(properties, "tblStyle", val="TableGrid")
    _in(properties, "tblW", w="0", type="auto")
    grid = _in(element, "tblGrid")
    width = table.width  # looks at every cell
    for _ in range(width):
        _in(grid, "gridCol", w=str(TEXT_WIDTH // width))
    rows: list[dict[int, tuple[Cell, bool]]] = [{} for _ in range(table.height)]
    for cell in table.cells:
        for row in range(cell.row, cell.row + cell.rows):
            rows[row][cell.column] = cell, row == cell.row
    head = table.head
    for number, row_cells in enumerate(rows):
        line = _in(element, "tr")
        if number < head:
            _in(_in(line, "trPr"), "tblHeader")
        column = 0
        while column < width:
            placed, begins = row_cells.get(column, (None, False))
            _write(_in(line, "tc"), placed, begins, fill)
            column += placed.columns if placed else 1
    return element


def _write(target: Any, cell: Cell | None, begins: bool, fill: Fill) -> None:
    properties = _in(target, "tcPr")
    if cell and cell.columns > 1:
        _in(properties, "gridSpan", val=str(cell.columns))
    if cell and cell.rows > 1:
        _in(properties, "vMerge", val="restart" if begins else "continue")
    paragraph = _in(target, "p")
    if cell and begins:
        fill(paragraph, cell)


def _node(name: str, **attributes: str) -> Any:
    node = OxmlElement(f"w:{name}")
    for attribute, value in attributes.items():
        node.set(qn(f"w:{attribute}"), value)
    return node


def _in(parent: Any, name: str, **attributes: str) -> Any:
    node = _node(name, **attributes)
    parent.append(node)
    return node


def render(pages: Iterable[ResultPage], sink: BinaryIO, title: str) -> None:
    """``sink`` can seek."""
    document = docx.Document()
    _say_what_it_is(document, title)
    for number, page in enumerate(pages):
        if number:
            document.add_paragraph().add_run().add_break(WD_BREAK.PAGE)
        formulas = Formulas()
        writer = _Writer(document, page, formulas)
        writer.feed(body(page, formulas))
        writer.close()
    _mark_right_to_left(document.element.body)
    document.save(sink)


def _say_what_it_is(document: Any, title: str) -> None:
    """In place of what python-docx' template says of itself, its thumbnail among it."""
    said, now = document.core_properties, datetime.datetime.now(datetime.UTC).replace(tzinfo=None, microsecond=0)
    said.author = said.comments = ""
    said.title, said.created, said.modified = writable(title)[:LONGEST_PROPERTY], now, now
    package = document.part.package
    for key in [key for key, relation in package.rels.items() if relation.reltype in OF_THE_TEMPLATE]:
        del package.rels[key]


def _mark_right_to_left(element: Any) -> None:
    """Word takes each paragraph for left-to-right, and each run, unless they say otherwise."""
    for paragraph in element.iter(qn("w:p")):
        if is_right_to_left(_said(paragraph)):
            paragraph.get_or_add_pPr().insert_element_before(OxmlElement("w:bidi"), *BEHIND_BIDI)
    for part in element.iter(qn("w:r")):
        run = Run(part, element)
        if is_right_to_left(run.text):  # Word has a bold and an italic of their own for these
            run.font.rtl, run.font.cs_bold, run.font.cs_italic = True, run.font.bold, run.font.italic
    for table in element.iter(qn("w:tbl")):
        if is_right_to_left(_said(table)):
            table.find(qn("w:tblPr")).find(qn("w:tblStyle")).addnext(OxmlElement("w:bidiVisual"))


def _said(element: Any) -> str:
    return "".join(text.text or "" for text in element.iter(qn("w:t")))


class _Writer(HTMLParser):
    """Adds a page's HTML to a document. It is Markdown's with a model's HTML inside, so tags may be missing."""

    def __init__(self, document: Any, page: ResultPage, formulas: Formulas) -> None:
        super().__init__(convert_charrefs=True)
        self._document, self._page, self._formulas = document, page, formulas
        self._paragraph: Paragraph | None = None
        self._style: str | None = None
        self._fonts: set[str] = set()
        self._lists: list[str] = []
        self._centred = 0
        self._literal = 0
        self._unseen = 0
        self._tables: CellReader | None = None
        self._depth = 0  # of tables

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "table":
            self._tables = self._tables or CellReader()
            self._depth += 1
            self._paragraph = None
        if self._tables is not None:
            self._tables.handle_starttag(tag, attrs)
        elif tag in UNSEEN:
            self._unseen += 1
        elif tag == "img":
            self._picture(values.get("src", ""), values.get("width", ""))
        elif tag == "br":
            if self._paragraph is not None:
                self._paragraph.add_run().add_break()
        elif tag in FONTS:
            self._fonts.add(tag)
        elif tag in BLOCKS:
            self._begin(tag, values)

    def _begin(self, tag: str, values: dict[str, str]) -> None:
        self._paragraph = None
        self._fonts.clear()  # a model leaves tags open
        if tag in HEADINGS:
            self._style = HEADINGS[tag]
        elif tag in ("ul", "ol"):
            self._lists.append("List Bullet" if tag == "ul" else "List")
        elif tag == "li" and self._lists:
            depth = min(len(self._lists), MOST_LISTS)
            self._style = self._lists[-1] + (f" {depth}" if depth > 1 else "")
            if self._lists[-1] == "List" and values.get("value"):  # as text: Word would number anew
                self._current().add_run(f"{values['value']}. ")
        elif tag == "blockquote":
            self._style = "Quote"
        elif tag == "pre":
            self._literal += 1
        elif tag == "div" and "center" in values.get("style", ""):
            self._centred += 1

    def handle_endtag(self, tag: str) -> None:
        if self._tables is not None:
            self._tables.handle_endtag(tag)
            self._depth -= tag == "table"
            if self._depth <= 0:
                self._end_tables()
        elif tag in UNSEEN:
            self._unseen = max(0, self._unseen - 1)
        elif tag in FONTS:
            self._fonts.discard(tag)
        elif tag in BLOCKS:
            self._paragraph = None
            if tag in HEADINGS or tag in ("li", "blockquote"):
                self._style = None
            elif tag in ("ul", "ol") and self._lists:
                self._lists.pop()
            elif tag == "pre":
                self._literal = max(0, self._literal - 1)
            elif tag == "div":
                self._centred = max(0, self._centred - 1)

    def handle_data(self, data: str) -> None:
        if self._tables is not None:
            self._tables.handle_data(data)
            return
        text = data if self._literal else re.sub(r"\s+", " ", data)
        if self._unseen or (not text.strip() and self._paragraph is None):
            return
        begins = self._paragraph is None
        self._write(self._current(), text.lstrip() if begins else text, self._fonts)

    def close(self) -> None:
        super().close()
        if self._tables is not None:
            self._end_tables()

    def _current(self) -> Paragraph:
        if self._paragraph is None:
            self._paragraph = self._document.add_paragraph(style=self._style)
            if self._centred:
                self._paragraph.alignment = WD_ALIGN_PARAGRAPH.CENTER
        return self._paragraph

    def _write(self, paragraph: Paragraph, text: str, fonts: set[str]) -> None:
        """Text with marks of formulas and pictures."""
        at = 0
        for mark in SPECIAL.finditer(text):
            self._run(paragraph, text[at : mark.start()], fonts)
            at = mark.end()
            if mark[1] is not None:
                self._formula(paragraph, *self._formulas.find(mark[1]))
            else:
                self._put_picture(paragraph, mark[2], 0.2)
        self._run(paragraph, text[at:], fonts)

    def _run(self, paragraph: Paragraph, text: str, fonts: set[str]) -> None:
        if text:
            run = paragraph.add_run(text)
            for tag in fonts:
                setattr(run.font, FONTS[tag], True)

    def _formula(self, paragraph: Paragraph, latex: str, display: bool) -> None:
        mathml = mathml_of(latex, display)
        try:
            if mathml is None:
                raise Untranslatable(latex)
            formula = omml(mathml, display=display)
        except (Untranslatable, RecursionError):
            paragraph.add_run(latex).font.name = "Consolas"
        else:
            paragraph._p.append(parse_xml(ElementTree.tostring(formula)))

    def _picture(self, path: str, width: str) -> None:
        said = re.fullmatch(r"(\d{1,3})%", width.strip())
        self._put_picture(self._current(), path, min(int(said[1]), 100) / 100 if said else PICTURE_SHARE)

    def _put_picture(self, paragraph: Paragraph, path: str, share: float) -> None:
        """``share`` of the text's width; a picture is not enlarged beyond its own size."""
        if path not in self._page.pictures:
            return
        section = self._document.sections[-1]
        most = int((section.page_width - section.left_margin - section.right_margin) * max(share, 0.02))
        run: Run = paragraph.add_run()
        try:
            shape = run.add_picture(io.BytesIO(self._page.picture(path)))
        except (UnrecognizedImageError, OSError, ValueError, ZeroDivisionError):
            run.text = f"[picture {path.rsplit('/', 1)[-1]} cannot be read]"
            return
        if shape.width > most:
            shape.width, shape.height = Emu(most), Emu(max(1, int(shape.height * (most / shape.width))))

    def _end_tables(self) -> None:
        tables, self._tables, self._depth = self._tables, None, 0
        for table in tables.tables() if tables else ():
            if table.width > MOST_COLUMNS:
                self._wide(table)
            else:
                body = self._document.element.body
                body.insert(len(body) - 1, table_element(table, self._fill))  # before the section's properties
                self._document.add_paragraph()  # Word joins tables that touch

    def _fill(self, element: Any, cell: Cell) -> None:
        self._write(Paragraph(element, self._document._body), cell.text, {"b"} if cell.header else set())

    def _wide(self, table: Table) -> None:
        """As lines with tabs."""
        for row in table.rows():
            self._write(self._document.add_paragraph(), "\t".join(row), set())
