# SPDX-License-Identifier: Apache-2.0
"""PDFs that carry their text, true ones and ones that lie; and what a page of them says of itself."""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np
import pikepdf
import pypdfium2
from pikepdf import Array, Dictionary, Name
from PIL import Image, ImageDraw

from docparser.own_text.page_text import OwnText
from docparser.own_text.pdfium_text import characters_of
from tests.support.fonts import font

SCALE = 2.0  # pixels a point, as the service has them


def text(words: str, x: float = 60, y: float = 300, size: float = 12, face: str = "Helvetica") -> bytes:
    """The operators that write a line; ``words`` is written in Windows-1252."""
    coded = words.encode("cp1252").hex().encode()
    return b"BT /%b %g Tf %g %g Td <%b> Tj ET\n" % (face.replace("-", "").encode(), size, x, y, coded)


def pdf(
    content: bytes,
    *,
    faces: tuple[str, ...] = ("Helvetica",),
    to_unicode: Mapping[str, str] | None = None,
    pictures: Mapping[str, Image.Image] | None = None,
    states: Mapping[str, dict] | None = None,
    forms: Mapping[str, tuple[bytes, list[float]]] | None = None,
    **keys: object,
) -> bytes:
    """A page of 500 x 500 points. ``to_unicode``: what letters are said to be, of all ``faces``; ``forms``: content and
    matrix by name; ``keys`` of the page."""
    with pikepdf.new() as made, io.BytesIO() as buffer:
        page = made.add_blank_page(page_size=(500, 500)).obj
        fonts = Dictionary()
        for face in faces:
            one = Dictionary(
                Type=Name.Font, Subtype=Name.Type1, BaseFont=Name(f"/{face}"), Encoding=Name.WinAnsiEncoding
            )
            if to_unicode:
                one.ToUnicode = pikepdf.Stream(made, _map(to_unicode))
            fonts[f"/{face.replace('-', '')}"] = one
        objects = Dictionary()
        for name, picture in (pictures or {}).items():
            image = pikepdf.Stream(made, picture.convert("RGB").tobytes())
            image.update(
                Dictionary(
                    Type=Name.XObject,
                    Subtype=Name.Image,
                    Width=picture.width,
                    Height=picture.height,
                    ColorSpace=Name.DeviceRGB,
                    BitsPerComponent=8,
                )
            )
            objects[f"/{name}"] = image
        resources = Dictionary(Font=fonts, XObject=objects, ExtGState=Dictionary())
        for name, state in (states or {}).items():
            resources.ExtGState[f"/{name}"] = Dictionary(state)
        for name, (inner, matrix) in (forms or {}).items():
            form = pikepdf.Stream(made, inner)
            form.update(
                Dictionary(
                    Type=Name.XObject,
                    Subtype=Name.Form,
                    BBox=Array([-2000, -2000, 2000, 2000]),
                    Matrix=Array(matrix),
                    Resources=Dictionary(Font=fonts),
                )
            )
            objects[f"/{name}"] = form
        page.Resources = resources
        page.Contents = pikepdf.Stream(made, content)
        for name, value in keys.items():
            page[f"/{name}"] = value
        made.save(buffer)
        return buffer.getvalue()


def _map(to_unicode: Mapping[str, str]) -> bytes:
    rows = b"".join(
        b"<%b> <%b>\n" % (letter.encode("cp1252").hex().encode(), said.encode("utf-16-be").hex().encode())
        for letter, said in to_unicode.items()
    )
    head = b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap\n"
    head += b"1 begincodespacerange <00> <ff> endcodespacerange\n"
    return head + b"%d beginbfchar\n%bendbfchar\nendcmap end end" % (len(to_unicode), rows)


def printed(words: str, size: int = 24) -> Image.Image:
    """A picture of a line of print, black on white."""
    face = font(size)
    left, _, right, _ = face.getbbox(words)
    picture = Image.new("RGB", (int(right - left) + 8, int(size * 1.4)), "white")
    ImageDraw.Draw(picture).text((4, 2), words, font=face, fill="black")
    return picture


def own_text(data: bytes, scale: float = SCALE) -> OwnText:
    """Of the first page."""
    document = pypdfium2.PdfDocument(data)
    try:
        document.init_forms()
        page = document[0]
        pixels = np.array(
            page.render(scale=scale, prefer_bgrx=False, maybe_alpha=False).to_numpy()[:, :, :3], order="C"
        )
        return OwnText(characters_of(page, pixels.shape[1], pixels.shape[0]), pixels)
    finally:
        document.close()
