# SPDX-License-Identifier: Apache-2.0
"""Reading PDFs, one page at a time."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import math
import mmap
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pypdfium2
from pypdfium2 import PdfiumError
from pypdfium2 import raw as pdfium

from docparser.documents.page import LONGEST_SIDE, DocumentLimits, Page, note
from docparser.documents.spool import OpenDocument
from docparser.errors import DocumentTooLarge, InvalidDocument
from docparser.opening import CUT_SHORT, Unreadable
from docparser.opening.pdfs import ATTACHMENTS, DAMAGED, UserUnits, attached, attachments, open_pdf
from docparser.own_text.pdfium_text import characters_of

if TYPE_CHECKING:
    from docparser.contract.answers import Note

KEPT_OPEN = 4  # several, because the pages of several documents take turns
LEAST_PIXELS = 1_400_000  # 1000 x 1400: a page of few points may be a whole letter
SCAN_PIXELS = 9_000_000  # A4 at 300 dpi; finer scans, of two colours mostly, say no more
SCANNED = 0.25  # share of a page's area: pictures that cover as much may hold its text
MOST_LOOKED_AT = 4000  # objects of a page; a scan has few, even with a text layer
STRIP = 0.02  # share of a page's area: a scanner's strips have more, logos less


class _MappedPdf:
    """A PDF that PDFium reads from a mapping of the file, so it takes none of this process's own memory.

    ``units``: the size of a unit of each page; ``whole``: see OpenPdf. Raises Unreadable, PdfiumError; ValueError for
    an empty file.
    """

    def __init__(self, file: int) -> None:
        self._file = os.dup(file)
        try:
            content = mmap.mmap(file, 0, access=mmap.ACCESS_READ)
            self._bytes = np.frombuffer(content, np.uint8)
            mapped = (ctypes.c_ubyte * self._bytes.size).from_address(self._bytes.ctypes.data)
            with open(file, "rb", closefd=False) as again:
                self.document, self.whole = open_pdf(again, mapped)
            self.units = UserUnits(file)
            self.document.init_forms()  # without it, the text in form fields would not be drawn
        except BaseException:
            os.close(self._file)
            raise

    @property
    def deleted(self) -> bool:
        return os.fstat(self._file).st_nlink == 0

    def close(self) -> None:
        self.document.close()
        os.close(self._file)


class PdfReader:
    """Keeps the last PDFs open, because their next pages usually follow soon."""

    def __init__(self) -> None:
        self._open_pdfs: collections.OrderedDict[tuple[int, int], _MappedPdf] = collections.OrderedDict()

    def close_deleted(self) -> None:
        """Close the PDFs whose file is gone because their request has ended."""
        for name in [name for name, pdf in self._open_pdfs.items() if pdf.deleted]:
            self._open_pdfs.pop(name).close()

    def _open(self, document: OpenDocument) -> _MappedPdf:
        state = os.fstat(document.file)
        name = (state.st_dev, state.st_ino)  # unique while the file is open
        found = self._open_pdfs.get(name)
        if found is None:
            try:
                found = self._open_pdfs[name] = _MappedPdf(document.file)
            except Unreadable as exc:
                raise InvalidDocument(f"file: the PDF {exc}") from None
            except (PdfiumError, ValueError):
                raise InvalidDocument("file: the PDF is damaged or has no pages") from None
            if len(self._open_pdfs) > KEPT_OPEN:
                self._open_pdfs.popitem(last=False)[1].close()
        self._open_pdfs.move_to_end(name)
        return found

    def count_pages(self, document: OpenDocument) -> int:
        """Raises InvalidDocument for a damaged, encrypted or empty PDF."""
        count = len(self._open(document).document)
        if count < 1:
            raise InvalidDocument("file: the PDF has no pages")
        return count

    def read_page(self, document: OpenDocument, index: int, limits: DocumentLimits, *, own_text: bool = False) -> Page:
        """Page ``index`` (from 0), on white ground. The first page has a note of files that the PDF carries.
        ``own_text``: with the characters of its own text.

        Raises InvalidDocument if the page cannot be rendered, DocumentTooLarge if it holds too much.
        """
        found = self._open(document)
        pdf, units = found.document, found.units
        try:
            with contextlib.closing(pdf[index]) as page:
                objects = pdfium.FPDFPage_CountObjects(page)
                if objects > limits.max_pdf_objects:
                    raise DocumentTooLarge(
                        f"file: page {index + 1} has {objects} objects; "
                        f"at most {limits.max_pdf_objects} are allowed (PARSER_MAX_PDF_OBJECTS)"
                    )
                width, height = page.get_size()
                scale = render_scale(width, height, limits, at_least=_pixels_a_point(page), unit=units[index])
                bitmap = page.render(scale=scale, prefer_bgrx=False, maybe_alpha=False)
                pixels = bitmap.to_numpy()
                if pixels.ndim == 2 or pixels.shape[2] == 1:
                    pixels = np.repeat(pixels.reshape(*pixels.shape[:2], 1), 3, axis=2)
                characters = characters_of(page, pixels.shape[1], pixels.shape[0]) if own_text else None
                return Page(np.array(pixels[:, :, :3], order="C"), _notes(found, page, index), characters)
        except (PdfiumError, ValueError, OSError) as exc:
            raise InvalidDocument(f"file: page {index + 1} of the PDF cannot be rendered ({exc})") from None


def render_scale(
    width: float, height: float, limits: DocumentLimits, *, at_least: float = 0.0, unit: float = 1.0
) -> float:
    """Pixels per unit for a page of ``width`` x ``height`` units, each of ``unit`` points: PARSER_PDF_SCALE for each
    point; more where a scan on the page has more (``at_least``) or the page would be small; less for a large page."""
    if not (width > 0 and height > 0 and math.isfinite(width * height)):
        raise ValueError(f"its size is {width} x {height} points")
    return min(
        max(
            limits.pdf_scale * unit,
            min(at_least, math.sqrt(SCAN_PIXELS / (width * height))),
            math.sqrt(LEAST_PIXELS / (width * height)),
        ),
        math.sqrt(limits.max_pdf_page_pixels / (width * height)),
        (LONGEST_SIDE - 1) / max(width, height),  # PDFium's sides are rounded up
    )


def _pixels_a_point(page: pypdfium2.PdfPage) -> float:
    """Pixels a point of the finest picture, on a page that pictures cover; 0 on other pages."""
    page_area, covered, finest = math.prod(page.get_size()), 0.0, 0.0
    for left, bottom, right, top, pixels in _pictures(page):
        area = (right - left) * (top - bottom)
        if area >= STRIP * page_area:
            covered += area
            finest = max(finest, math.sqrt(pixels / area))
    return finest if covered >= SCANNED * page_area else 0.0


def _pictures(page: pypdfium2.PdfPage) -> Iterator[tuple[float, float, float, float, int]]:
    """The box of each picture on a page, in units, and its pixels. A scan that a program has stamped lies in a form,
    which counts as its largest picture."""
    for index in range(min(pdfium.FPDFPage_CountObjects(page), MOST_LOOKED_AT)):
        found = pdfium.FPDFPage_GetObject(page, index)
        kind = pdfium.FPDFPageObj_GetType(found)
        if kind == pdfium.FPDF_PAGEOBJ_IMAGE:
            pixels = _size(found)
        elif kind == pdfium.FPDF_PAGEOBJ_FORM:
            count = min(pdfium.FPDFFormObj_CountObjects(found), MOST_LOOKED_AT)
            pixels = max((_size(pdfium.FPDFFormObj_GetObject(found, place)) for place in range(count)), default=0)
        else:
            continue
        box = [ctypes.c_float() for _ in range(4)]
        if pixels and pdfium.FPDFPageObj_GetBounds(found, *box):
            left, bottom, right, top = (side.value for side in box)
            yield left, bottom, right, top, pixels


def _size(found: ctypes._Pointer) -> int:
    """Pixels of a picture; 0 of anything else."""
    width, height = ctypes.c_uint(), ctypes.c_uint()
    is_picture = pdfium.FPDFPageObj_GetType(found) == pdfium.FPDF_PAGEOBJ_IMAGE
    return (
        width.value * height.value if is_picture and pdfium.FPDFImageObj_GetImagePixelSize(found, width, height) else 0
    )


def _notes(pdf: _MappedPdf, page: pypdfium2.PdfPage, index: int) -> list[Note]:
    count = attachments(pdf.document) if index == 0 else 0
    for place in range(pdfium.FPDFPage_GetAnnotCount(page)):
        annotation = pdfium.FPDFPage_GetAnnot(page, place)
        count += pdfium.FPDFAnnot_GetSubtype(annotation) == pdfium.FPDF_ANNOT_FILEATTACHMENT
        pdfium.FPDFPage_CloseAnnot(annotation)
    damaged = [] if pdf.whole or index else [note(CUT_SHORT, DAMAGED)]
    return [*damaged, *([note(ATTACHMENTS, attached(count))] if count else [])]
