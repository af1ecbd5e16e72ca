# SPDX-License-Identifier: Apache-2.0
"""One page of a document at a time, as the bytes that are sent: a PDF of one page, or an image.

The parser's own code defines a page (docparser.opening). PDFium and Pillow's multi-page files are not thread-safe, so
everything here runs in one thread of its own (`PageCutter.thread`).
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pikepdf
import pypdfium2
from PIL import Image
from pypdfium2 import PdfiumError

from docparser.opening import CUT_SHORT, Unreadable, pdfs, pictures
from file_types import HEAD_BYTES, IMAGE, PDF, format_of, refusal
from tool_errors import ParseError

from .state import Note

# PDFium keeps the pages that it has read. Reopening long documents now and then keeps memory flat.
REOPEN_AFTER = 50
LAYERS = "/OCProperties"  # key of the catalogue: the layers, and which are shown (ISO 32000-2, 8.11.4)


@contextlib.contextmanager
def readable() -> Iterator[None]:
    """A file that cannot be read, or is gone, costs its own pages, not the run."""
    try:
        yield
    except OSError as error:
        raise ParseError(f"cannot be read ({error.strerror or error})") from error


@dataclass(frozen=True)
class Page:
    """What goes to the parser: `file_type` is that of /layout-parsing; `points` the page's width and height in points
    (1/72 inch), None for an image. `notes` are the facts about the page that the cut page no longer shows."""

    data: bytes
    file_type: int
    points: tuple[float, float] | None = None
    notes: tuple[Note, ...] = ()


class PageCutter:
    """Counts and cuts pages; keeps the last PDF open. Raises ParseError for a document that cannot be read."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="pages")
        self._path: Path | None = None
        self._pdf: pypdfium2.PdfDocument | None = None
        self._layered: pikepdf.Pdf | None = None
        self._whole = True
        self._cut = 0

    def close(self) -> None:
        self.thread.submit(self._close_pdf).result()
        self.thread.shutdown()

    @readable()
    def count(self, path: Path) -> int:
        """How many pages a document has; an image has one, a TIFF may have more."""
        format = kind(path)
        if format == "PDF":
            return len(self._open(path))
        try:
            with pictures.opened(path, format) as image:
                return pictures.count_pages(image)
        except Unreadable as error:
            raise ParseError(f"the {format} {error}") from error

    @readable()
    def notes(self, path: Path) -> list[Note]:
        """Notes on the document that no single page tells."""
        if kind(path) != "PDF":
            return []
        count = pdfs.attachments(self._open(path))
        damaged = [] if self._whole else [Note(CUT_SHORT, pdfs.DAMAGED)]
        return [*damaged, *([Note(pdfs.ATTACHMENTS, pdfs.attached(count))] if count else [])]

    @readable()
    def read(self, path: Path, number: int) -> Page:
        """Page `number`, counted from 1."""
        format = kind(path)
        if format == "PDF":
            return self._cut_page(path, number)
        if format != "TIFF" or self.count(path) == 1:
            return Page(path.read_bytes(), IMAGE)
        try:
            picture = pictures.read(path, format, number - 1)
        except Unreadable as error:
            raise ParseError(f"page {number} of the TIFF {error}") from error
        plain, size = picture.plain(), picture.square_size(math.inf, math.inf)
        if size != plain.size:
            plain = (plain.convert("L") if plain.mode == "1" else plain).resize(size, Image.Resampling.BICUBIC)
        buffer = io.BytesIO()
        plain.save(buffer, "PNG")
        notes = (Note(CUT_SHORT, f"page {number} of the TIFF {picture.lacks}"),) if picture.lacks else ()
        return Page(buffer.getvalue(), IMAGE, notes=notes)

    def _cut_page(self, path: Path, number: int) -> Page:
        pdf = self._open(path)
        try:
            page = pdf[number - 1]
            if pdf.formenv:
                page.flatten()  # the entries of a form belong to the document, so the cut page would lack them
            size = page.get_size()
            page.close()
            if not self._cut:
                self._layered = layered(path, pdf)
            data = alone(pdf, number) if self._layered is None else with_layers(self._layered, number)
        except (pikepdf.PdfError, *pdfs.REPAIR_ERRORS) as error:
            raise ParseError(f"page {number} of the PDF cannot be read ({error})") from error
        self._cut += 1
        if self._cut >= REOPEN_AFTER:
            self._close_pdf()
        return Page(data, PDF, size)

    def _open(self, path: Path) -> pypdfium2.PdfDocument:
        if self._path != path or self._pdf is None:
            self._close_pdf()
            try:
                pdf, whole = pdfs.open_pdf(path)
                if pdf.get_formtype():
                    pdf.init_forms()
            except Unreadable as error:
                raise ParseError(f"the PDF {error}") from error
            except PdfiumError as error:
                raise ParseError("the PDF is damaged or has no pages") from error
            self._path, self._pdf, self._whole = path, pdf, whole
        return self._pdf

    def _close_pdf(self) -> None:
        for opened in (self._layered, self._pdf):
            if opened is not None:
                opened.close()
        self._path, self._pdf, self._layered, self._cut = None, None, None, 0


def alone(pdf: pypdfium2.PdfDocument, number: int) -> bytes:
    """Page `number` as a PDF of its own."""
    with pypdfium2.PdfDocument.new() as single, io.BytesIO() as buffer:
        single.import_pages(pdf, [number - 1])
        single.save(buffer)
        return buffer.getvalue()


def with_layers(pdf: pikepdf.Pdf, number: int) -> bytes:
    """The same with the catalogue's entry on layers. PDFium drops it, and then every layer would show."""
    with pikepdf.new() as single, io.BytesIO() as buffer:
        single.pages.append(pdf.pages[number - 1])
        single.Root[LAYERS] = single.copy_foreign(pdf.Root[LAYERS])
        single.save(buffer)
        return buffer.getvalue()


def layered(path: Path, pdf: pypdfium2.PdfDocument) -> pikepdf.Pdf | None:
    """The PDF as qpdf reads it, with forms flattened, if it has layers. None too if qpdf does not find its pages."""
    try:
        found = pikepdf.open(path)
        has_layers = isinstance(found.Root.get(LAYERS), pikepdf.Dictionary)
        if has_layers and pdf.formenv:
            for page in pdf:
                page.flatten()
                page.close()
            found.close()
            buffer = io.BytesIO()
            pdf.save(buffer)
            found = pikepdf.open(buffer)
        if has_layers and len(found.pages) == len(pdf):
            found.Root[LAYERS] = found.make_indirect(found.Root[LAYERS])  # qpdf copies no other objects
            return found
        found.close()
    except (pikepdf.PdfError, *pdfs.REPAIR_ERRORS):
        pass
    return None


def kind(path: Path) -> str:
    """The format by a file's first bytes. Raises ParseError for one that parsers do not read."""
    with readable(), path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    found = format_of(head)
    if found is None:
        raise ParseError(refusal(head))
    return found
