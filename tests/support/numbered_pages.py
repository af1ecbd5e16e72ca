# SPDX-License-Identifier: Apache-2.0
"""A simulated parser whose pages have numbers, and the documents that it knows them from.

A page's number is hidden in its width (600 + number points or pixels, see `numbered_pdf`). Its answer has a heading, a
table with a formula-like cell and a picture.
"""

from __future__ import annotations

import base64
import io

import pypdfium2
from PIL import Image, ImageDraw

from tests.support.entries import block_of, entry_of
from tests.support.simulated_parser import SimulatedParser

TABLE = (
    "<table><tr><th colspan='2'>Item</th><th>Price</th></tr><tr><td rowspan=2>Paper</td><td>A4</td><td>12.50</td></tr>"
    "<tr><td>A3</td><td>=HYPERLINK(1)</td></tr><tr><td>007</td><td>-3</td><td>+49 30</td></tr></table>"
)


def numbered_pdf(pages: int, wider: int = 1) -> bytes:
    """A PDF whose page n is 600 + n points wide; with `wider` 0 each is like the first."""
    pdf, buffer = pypdfium2.PdfDocument.new(), io.BytesIO()
    for number in range(1, pages + 1):
        pdf.new_page(601 + wider * (number - 1), 800)
    pdf.save(buffer)
    return buffer.getvalue()


def number_of(body: dict) -> int:
    data = base64.b64decode(body["file"])
    if body["fileType"] == 0:
        pdf = pypdfium2.PdfDocument(data)
        assert len(pdf) == 1, "pages come one at a time"
        return round(pdf[0].get_width()) - 600
    return Image.open(io.BytesIO(data)).width - 600


def jpeg(width: int, height: int) -> str:
    image, buffer = Image.new("RGB", (width, height), "white"), io.BytesIO()
    ImageDraw.Draw(image).rectangle((10, 10, width - 10, height // 2), outline="red", width=4)
    image.save(buffer, "JPEG")
    return base64.b64encode(buffer.getvalue()).decode()


def noise(width: int, height: int) -> str:
    """A picture that no JPEG makes small."""
    image, buffer = Image.effect_noise((width, height), 90).convert("RGB"), io.BytesIO()
    image.save(buffer, "JPEG", quality=95)
    return base64.b64encode(buffer.getvalue()).decode()


def result_of(number: int, drawing: str | None, only_table: bool = False) -> dict:
    """The `result` for one page."""
    if only_table:
        page = entry_of([block_of("table", TABLE, (10, 100, 300, 300), block_id=0)], width=600 + number, height=800)
        return {"layoutParsingResults": [page], "docparser": {"partial": False, "pages": [], "models": {}}}
    blocks = [
        ("doc_title", f"Page {number}", [10, 10, 300, 40]),
        ("text", f"Text of page {number}.\x0b\n\nSecond paragraph.", [10, 50, 300, 90]),
        ("table", TABLE, [10, 100, 300, 300]),
        ("image", "", [10, 310, 110, 410]),
        ("footer", "left out", [10, 700, 300, 720]),
    ]
    listed = [block_of(*one, block_id=index) for index, one in enumerate(blocks)]
    name = "imgs/img_in_image_box_10_310_110_410.jpg"
    text = f'# Page {number}\n\nText of page {number}.\n\n{TABLE}\n\n<img src="{name}" />'
    page = entry_of(listed, text, width=600 + number, height=800)
    page["markdown"]["images"] = {name: jpeg(100, 100)}
    if drawing:
        page["outputImages"] = {"layout_det_res": drawing}
    return {
        "layoutParsingResults": [page],
        "docparser": {"partial": False, "pages": [], "models": {"vlm": "simulated"}},
    }


class NumberedPagesParser(SimulatedParser):
    """`drawing`: base64 of a picture that every page gets as its drawing; None: a page with a box. `only_tables`: every
    page is the same table."""

    drawing: str | None = None
    only_tables = False

    def number_of(self, body: dict) -> int:
        return number_of(body)

    def result(self, number: int, body: dict) -> dict:
        drawing = (self.drawing or jpeg(2 * (600 + number), 1600)) if body["visualize"] else None
        return result_of(number, drawing, self.only_tables)
