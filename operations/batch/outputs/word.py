# SPDX-License-Identifier: Apache-2.0
"""A document as a Word file: headings, paragraphs, tables and pictures, a new page for each page."""

from __future__ import annotations

import re
from pathlib import Path

import docx
from docx.document import Document
from docx.image.exceptions import UnrecognizedImageError
from docx.shared import Inches

from docparser.convert.html_tables import Table
from docparser.convert.markdown_tables import find_tables

from .. import files
from ..state import DocumentState, Trouble
from .blocks import Block, blocks, plain

STYLES = {"doc_title": "Title", "paragraph_title": "Heading 1", "figure_title": "Caption", "abstract": "Quote"}
PICTURE_WIDTH = Inches(5)
# How PaddleOCR-VL marks lines of a block, and the Markdown a block may hold.
MARKS = re.compile(r"^#{1,6}\s+|\*\*|<[^>]{1,40}>", re.MULTILINE)


def write(state: DocumentState, path: Path) -> bool:
    document = docx.Document()
    for number, record in enumerate(state.records()):
        if number:
            document.add_page_break()
        if isinstance(record, Trouble):
            document.add_paragraph(plain(f"[page {record.page} is missing: {record.reason}]"), style="Intense Quote")
            continue
        for block in blocks(record):
            add_block(document, block, state.folder)
    with files.whole(path) as part:
        document.save(str(part))
    return True


def add_block(document: Document, block: Block, folder: Path) -> None:
    tables = find_tables(block.content) if block.label == "table" else []
    if tables:
        for table in tables:
            add_table(document, table)
    else:
        if block.picture and (folder / block.picture).is_file():
            add_picture(document, folder / block.picture)
        # A seal that was read has both.
        for paragraph in filter(None, map(str.strip, re.split(r"\n\s*\n", block.content))):
            document.add_paragraph(plain(MARKS.sub("", paragraph)), style=STYLES.get(block.label))


def add_picture(document: Document, path: Path) -> None:
    try:
        document.add_picture(str(path), width=PICTURE_WIDTH)
    except (UnrecognizedImageError, OSError, ZeroDivisionError):
        document.add_paragraph(f"[picture {path.name} cannot be read]")


def add_table(document: Document, table: Table) -> None:
    grid = document.add_table(rows=table.height, cols=table.width, style="Table Grid")
    for cell in table.cells:
        target = grid.cell(cell.row, cell.column)
        if cell.rows > 1 or cell.columns > 1:
            target = target.merge(grid.cell(cell.row + cell.rows - 1, cell.column + cell.columns - 1))
        target.text = plain(cell.text)
