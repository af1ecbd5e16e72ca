# SPDX-License-Identifier: Apache-2.0
"""A document as a PDF that can be searched: the pages as they were, under text that is not drawn.

A PDF stays the file that it was, with a further font and a further stream of content on each page; pictures become
pages (``picture_pages``). Text is in reading order (``text_layer``), in a font without shapes (``pdf_text``).
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pikepdf
import pypdfium2
from pikepdf import Array, Dictionary, Name
from PIL import Image

from docparser.convert import pdf_text
from docparser.convert.document import Source
from docparser.convert.pdf_text import Codes
from docparser.convert.picture_pages import add_picture
from docparser.convert.text_layer import Line, lines_of
from docparser.opening import Unreadable, pdfs
from docparser.outline import side
from docparser.places.atoms import UNITS, text_width
from docparser.places.box import Box

FONT = Name("/DocparserText")
SIDE = 1700  # pixels of a page in which its lines are looked for: letters of 10 points are 20 high on A4
A4 = (595, 842)  # points
ALREADY = 0.6  # of a block's letters: then the page has this text itself
Matrix = tuple[float, float, float, float, float, float]
AS_IT_IS: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


class UneditablePdf(Exception):
    """The PDF can be shown, and not changed. The message says why."""


# Number from 1, and the entry of an answer, without ``prunedResult`` if the page has none; in order.
Pages = Iterable[tuple[int, dict[str, Any]]]


def write(source: Source, pages: Pages, sink: BinaryIO) -> None:
    """Only the named pages are written. Raises UneditablePdf."""
    try:
        if source.format == "PDF":
            _from_pdf(source.path, pages, sink)
        else:
            _from_pictures(source, pages, sink)
    except Unreadable as exc:
        raise UneditablePdf(f"the {source.format} {exc}") from exc
    except (pikepdf.PdfError, pikepdf.DataDecodingError, pypdfium2.PdfiumError) as exc:
        raise UneditablePdf(f"the PDF is damaged: {exc}") from exc


def _from_pdf(path: Path, pages: Pages, sink: BinaryIO) -> None:
    with contextlib.ExitStack() as stack:
        pdf = stack.enter_context(pikepdf.open(path, access_mode=pikepdf.AccessMode.stream))
        view = stack.enter_context(contextlib.closing(pdfs.open_pdf(path).document))
        if len(pdf.pages) != len(view):
            raise UneditablePdf(f"the PDF is damaged: it has {len(view)} pages or {len(pdf.pages)}")
        font, left_out = _Font(pdf), set(range(len(pdf.pages)))
        for number, entry in pages:
            left_out.discard(number - 1)
            if _was_read(entry):  # else it may be a page that PDFium cannot load
                with contextlib.closing(view[number - 1]) as page:
                    _stamp(pdf.pages[number - 1], _content(page, entry, font), font)
        for index in sorted(left_out, reverse=True):
            del pdf.pages[index]
        font.finish()
        if pdf.is_encrypted:
            pdf.save(sink, encryption=True)  # an owner's restrictions stay
        else:
            pdf.save(sink, stream_decode_level=pikepdf.StreamDecodeLevel.none)  # nobody's streams are unpacked


def _from_pictures(source: Source, pages: Pages, sink: BinaryIO) -> None:
    pdf = pikepdf.new()
    font = _Font(pdf)
    for number, entry in pages:
        try:
            picture = add_picture(pdf, source.path, source.format, number, SIDE)
        except Unreadable:
            if _was_read(entry):
                raise
            pdf.add_blank_page(page_size=A4)  # keeps the place of the page, whose size nobody knows
            continue
        _, _, width, height = map(float, picture.page.mediabox)
        parts = (part for _, part in _parts(entry, picture.shown, (width, height), AS_IT_IS))
        _stamp(picture.page, _drawn(parts, AS_IT_IS, font), font)
    font.finish()
    pdf.save(sink)


def _was_read(entry: dict[str, Any]) -> bool:
    return bool(entry.get("prunedResult", {}).get("parsing_res_list"))


def _content(page: pypdfium2.PdfPage, entry: dict[str, Any], font: _Font) -> bytes:
    """The operators that write the text of a page, without what the page says itself."""
    width, height = page.get_size()
    pixels = side(entry["prunedResult"].get("width")) or SIDE  # no more than were read; a unit may be an inch
    shown = page.render(scale=min(SIDE / max(width, height), pixels / width), grayscale=True).to_pil().convert("L")
    left, bottom, right, top = page.get_bbox()
    to_user: Matrix = {
        90: (0.0, 1.0, -1.0, 0.0, right, bottom),
        180: (-1.0, 0.0, 0.0, -1.0, right, top),
        270: (0.0, -1.0, 1.0, 0.0, left, top),
    }.get(page.get_rotation(), (1.0, 0.0, 0.0, 1.0, left, bottom))
    with contextlib.closing(page.get_textpage()) as said:
        has_text = said.count_chars() > 0
        parts = [
            part
            for place, part in _parts(entry, shown, (width, height), to_user)
            if not (has_text and _says(said, place, part))
        ]
    return _drawn(parts, to_user, font)


def _parts(
    entry: dict[str, Any], shown: Image.Image, size: tuple[float, float], to_user: Matrix
) -> Iterator[tuple[Box, list[Line]]]:
    """The lines of each block in points from the lower left corner of the page as it is shown, and where the block lies
    in the page's own coordinates. Of a page that was turned or flattened there are none, for its boxes are of
    another picture."""
    pruned = entry.get("prunedResult", {})
    if not _as_submitted(pruned):
        return
    across, along = float(pruned.get("width") or shown.width), float(pruned.get("height") or shown.height)
    x_scale, y_scale = size[0] / across, size[1] / along
    for lines in lines_of(entry, shown, shown.width / across):
        placed = [
            dataclasses.replace(
                line,
                box=Box(
                    line.box.left * x_scale,
                    size[1] - line.box.bottom * y_scale,
                    line.box.right * x_scale,
                    size[1] - line.box.top * y_scale,
                ),
            )
            for line in lines
        ]
        if placed:
            a, b, c, d, e, f = to_user
            corners = [(x, y) for line in placed for x in (line.box.left, line.box.right)
                       for y in (line.box.top, line.box.bottom)]  # fmt: skip
            xs, ys = [a * x + c * y + e for x, y in corners], [b * x + d * y + f for x, y in corners]
            yield Box(min(xs), min(ys), max(xs), max(ys)), placed


def _as_submitted(pruned: dict[str, Any]) -> bool:
    """Whether the page was read as it is in the document: PaddleX's models for its orientation and its curves, where
    an operator has added them, changed nothing. An ``angle`` of -1 says that nobody asked for it."""
    made = pruned.get("doc_preprocessor_res") or {}
    return made.get("angle", 0) <= 0 and not made.get("model_settings", {}).get("use_doc_unwarping")


def _says(said: pypdfium2.PdfTextPage, place: Box, lines: list[Line]) -> bool:
    """Whether the page has the text of ``lines`` there. Letters are counted, for words may be broken elsewhere."""
    ours = _letters("".join(line.text for line in lines))
    theirs = _letters(said.get_text_bounded(place.left - 2, place.top - 2, place.right + 2, place.bottom + 2))
    return bool(ours) and (ours & theirs).total() >= ALREADY * ours.total()


def _letters(text: str) -> collections.Counter[str]:
    return collections.Counter(sign for sign in text.casefold() if sign.isalnum())


def _drawn(parts: Iterable[list[Line]], to_user: Matrix, font: _Font) -> bytes:
    """Rendering mode 3 draws nothing. A line fills its box: from the descenders to the ascenders, from end to end."""
    operators = []
    for line in (line for part in parts for line in part):
        ems, box = text_width(line.text), line.box
        if ems <= 0 or box.width <= 0 or box.height <= 0:
            continue
        low = -pdf_text.DESCENT / UNITS
        if line.down:
            place = (0.0, -box.height / ems, box.width, 0.0, box.left + low * box.width, box.bottom)
        else:
            place = (box.width / ems, 0.0, 0.0, box.height, box.left, box.top + low * box.height)
        if all(map(math.isfinite, place)):
            operators.append(_numbers(place) + b" Tm " + _shown(line, font.codes))
    if not operators:
        return b""
    return b"q %b cm BT 3 Tr %b 1 Tf\n%b\nET Q" % (_numbers(to_user), bytes(FONT), b"\n".join(operators))


def _shown(line: Line, codes: Codes) -> bytes:
    """The operator that shows a line's text."""
    pieces = [(step, codes.encode(said).hex().encode()) for step, said in pdf_text.pieces(line.text, line.leftwards)]
    if len(pieces) == 1:
        return b"<%b> Tj" % pieces[0][1]
    return b"[%b] TJ" % b" ".join(b"%d <%b>" % (-step, said) for step, said in pieces)


def _numbers(matrix: Matrix) -> bytes:
    return " ".join(f"{value:.4f}".rstrip("0").rstrip(".") for value in matrix).encode()


def _stamp(page: pikepdf.Page, content: bytes, font: _Font) -> None:
    if content:
        # Before what the page draws, which then finds and leaves the graphics state as ever, in balance or not.
        page.contents_add(content + b"\n", prepend=True)
        page.add_resource(font.object, Name.Font, FONT, replace_existing=True)


class _Font:
    """The font of a document. ``finish`` it when all text is encoded."""

    def __init__(self, pdf: pikepdf.Pdf) -> None:
        self._pdf = pdf
        self.codes = Codes()
        self.object = pdf.make_indirect(Dictionary(Type=Name.Font, Subtype=Name.Type0))

    def finish(self) -> None:
        name = Name(f"/{pdf_text.NAME}")
        file = pikepdf.Stream(self._pdf, pdf_text.true_type())
        file.Length1 = len(pdf_text.true_type())
        descriptor = Dictionary(
            Type=Name.FontDescriptor,
            FontName=name,
            Flags=4,
            FontBBox=Array([0, pdf_text.DESCENT, UNITS, pdf_text.ASCENT]),
            ItalicAngle=0,
            Ascent=pdf_text.ASCENT,
            Descent=pdf_text.DESCENT,
            CapHeight=700,
            StemV=80,
            FontFile2=self._pdf.make_indirect(file),
        )
        descendant = Dictionary(
            Type=Name.Font,
            Subtype=Name.CIDFontType2,
            BaseFont=name,
            CIDSystemInfo=Dictionary(Registry=b"Adobe", Ordering=b"Identity", Supplement=0),
            FontDescriptor=self._pdf.make_indirect(descriptor),
            DW=500,
            W=Array(self.codes.widths),
            CIDToGIDMap=pikepdf.Stream(self._pdf, b"\0\1" * (len(self.codes) + 1)),
        )
        self.object.BaseFont = name
        self.object.Encoding = Name("/Identity-H")
        self.object.DescendantFonts = Array([self._pdf.make_indirect(descendant)])
        self.object.ToUnicode = pikepdf.Stream(self._pdf, self.codes.to_unicode)
