# SPDX-License-Identifier: Apache-2.0
"""Blocks with their places as chunks, as a Word file, and as the text layer of a PDF; the outline of their titles."""

from __future__ import annotations

import functools
import io
import json
import zipfile
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from xml.etree import ElementTree

import pypdfium2
from PIL import Image

from docparser.convert import chunks, searchable_pdf
from docparser.convert.chunks import estimate
from docparser.convert.document import ResultDocument, ResultPage, Source
from docparser.convert.names import writable
from docparser.convert.parts import outline_of
from tests.fuzz.choices import Choices
from tests.fuzz.targets import formulas, tables
from tests.fuzz.verdict import Broken
from tests.support.converted import convert

LABELS = ("text", "table", "doc_title", "paragraph_title", "table_title", "chart", "vertical_text", "formula", "number")
WORDS = (
    *("word ", "句子。", "A. ", "\n", "## ", "1.2 ", *"\u7b2c\u7ae0\u4e00\u5341\u767e\u3001IVC.)", "\u0301", "\u202e"),
    *("𠮷", "\ud800", "\x00", "<b>", "</td>", "<img src=", *formulas.WORDS[:16], *tables.WORDS[:14]),
    *("<tr><td>a</td><td>b</td></tr></table>", "| a | b |\n|---|---|\n| 1 | 2 |\n"),
)
SIDE = 60  # pixels of the page


def target(data: bytes) -> None:
    choices = Choices(data)
    pages = [entry(choices) for _ in range(1 + choices.below(3))]
    outline_of(enumerate(pages, 1))
    kind = choices.below(3)
    if kind == 0:
        check_chunks(pages, (32, 100)[choices.below(2)], join=choices.chance(2))
    elif kind == 1:
        document = ResultDocument("a", [ResultPage(writable(page["markdown"]["text"]), {}) for page in pages], {})
        with zipfile.ZipFile(io.BytesIO(convert(document, "docx"))) as archive:
            ElementTree.fromstring(archive.read("word/document.xml"))
    else:
        check_pdf(pages[0]["prunedResult"])


def entry(choices: Choices) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    for _ in range(choices.below(5)):
        left, top = choices.below(SIDE), choices.below(SIDE)
        blocks.append(
            {
                "block_label": choices.one(LABELS),
                "block_content": choices.text(WORDS, longest=2000),
                "block_bbox": [left, top, left + choices.below(SIDE), top + choices.below(SIDE)],
                "group_id": choices.below(4),
            }
        )
    text = "\n\n".join(block["block_content"] for block in blocks)
    return {
        "prunedResult": {"width": SIDE, "height": SIDE, "parsing_res_list": blocks},
        "markdown": {"text": text, "images": {}},
    }


def check_chunks(pages: list[dict[str, Any]], most: int, *, join: bool) -> None:
    sink = io.BytesIO()
    chunks.write("a", enumerate(pages, 1), most, join, sink)
    for line in sink.getvalue().splitlines():
        chunk = json.loads(line)
        if not 0 <= chunk["tokens"] <= most or chunk["tokens"] != estimate(chunk["text"]):
            raise Broken("a chunk is no longer than asked for")
        if not chunk["pages"] or not set(chunk["pages"]) <= set(range(1, len(pages) + 1)):
            raise Broken("a chunk names its pages")


@functools.cache
def picture() -> Path:
    path = Path(gettempdir()) / f"docparser-fuzz-{SIDE}.png"
    image = Image.new("L", (SIDE, SIDE), 255)
    for row in range(0, SIDE, 9):
        image.paste(0, (5, row, SIDE - 5, row + 5))
    image.save(path)
    return path


def check_pdf(pruned: dict[str, Any]) -> None:
    sink = io.BytesIO()
    searchable_pdf.write(Source(picture(), "PNG"), [(1, {"prunedResult": pruned})], sink)
    pdf = pypdfium2.PdfDocument(sink.getvalue())
    if len(pdf) != 1:
        raise Broken("the PDF has the page")
    pdf[0].get_textpage().get_text_bounded()
    pdf.close()


def seeds() -> list[bytes]:
    return [bytes([number % 3, number]) + bytes(range(number, number + 60)) for number in range(0, 60, 5)]
