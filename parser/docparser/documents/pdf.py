# SPDX-License-Identifier: Apache-2.0
"""Reading PDFs, one page at a time."""

from __future__ import annotations

import collections
import ctypes
import math
import mmap
import os

import numpy as np
import pypdfium2
from pypdfium2 import PdfiumError

from docparser.documents.limits import LONGEST_SIDE, DocumentLimits
from docparser.documents.spool import OpenDocument
from docparser.errors import DocumentTooLarge, InvalidDocument

KEPT_OPEN = 4  # several, because the pages of several documents take turns


class _MappedPdf:
    """A PDF that PDFium reads where the kernel maps the file, so it is in no memory of this process's own.

    Raises PdfiumError; ValueError for an empty file.
    """

    def __init__(self, file: int) -> None:
        self._file = os.dup(file)
        try:
            content = mmap.mmap(file, 0, access=mmap.ACCESS_READ)
            self._bytes = np.frombuffer(content, np.uint8)
            self.document = pypdfium2.PdfDocument(
                (ctypes.c_ubyte * self._bytes.size).from_address(self._bytes.ctypes.data)
            )
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

    def _open(self, document: OpenDocument) -> pypdfium2.PdfDocument:
        state = os.fstat(document.file)
        name = (state.st_dev, state.st_ino)  # no other file has it while this one is open
        pdf = self._open_pdfs.get(name)
        if pdf is None:
            self.close_deleted()
            pdf = self._mapped(document.file)
            self._open_pdfs[name] = pdf
            if len(self._open_pdfs) > KEPT_OPEN:
                self._open_pdfs.popitem(last=False)[1].close()
        self._open_pdfs.move_to_end(name)
        return pdf.document

    @staticmethod
    def _mapped(file: int) -> _MappedPdf:
        try:
            return _MappedPdf(file)
        except (PdfiumError, ValueError) as exc:
            # PDFium reports an earlier file's error for some files, so its message alone is no proof.
            if "password" in str(exc).lower() and mmap.mmap(file, 0, access=mmap.ACCESS_READ).find(b"/Encrypt") >= 0:
                raise InvalidDocument("file: the PDF is encrypted; remove its password first") from None
            raise InvalidDocument("file: the PDF is damaged or has no pages") from None

    def count_pages(self, document: OpenDocument) -> int:
        """Raises InvalidDocument for a damaged, encrypted or empty PDF."""
        count = len(self._open(document))
        if count < 1:
            raise InvalidDocument("file: the PDF has no pages")
        return count

    def read_page(self, document: OpenDocument, index: int, limits: DocumentLimits) -> np.ndarray:
        """Page ``index`` (from 0) as uint8 ``[height, width, 3]``, blue first, on white ground.

        Raises InvalidDocument if the page cannot be rendered, DocumentTooLarge if it holds too much.
        """
        pdf = self._open(document)
        try:
            page = pdf[index]
            try:
                objects = pypdfium2.raw.FPDFPage_CountObjects(page)
                if objects > limits.max_pdf_objects:
                    raise DocumentTooLarge(
                        f"file: page {index + 1} has {objects} objects; "
                        f"at most {limits.max_pdf_objects} are allowed (PARSER_MAX_PDF_OBJECTS)"
                    )
                width, height = page.get_size()
                bitmap = page.render(scale=render_scale(width, height, limits), prefer_bgrx=False, maybe_alpha=False)
                pixels = bitmap.to_numpy()
                if pixels.ndim == 2 or pixels.shape[2] == 1:
                    pixels = np.repeat(pixels.reshape(*pixels.shape[:2], 1), 3, axis=2)
                return np.array(pixels[:, :, :3], order="C")
            finally:
                page.close()
        except (PdfiumError, ValueError, OSError) as exc:
            raise InvalidDocument(f"file: page {index + 1} of the PDF cannot be rendered ({exc})") from None


def render_scale(width: float, height: float, limits: DocumentLimits) -> float:
    """Pixels per point for a page of ``width`` x ``height`` points: PARSER_PDF_SCALE, or less for a large page."""
    if not (width > 0 and height > 0 and math.isfinite(width * height)):
        raise ValueError(f"its size is {width} x {height} points")
    return min(
        limits.pdf_scale,
        math.sqrt(limits.max_pdf_page_pixels / (width * height)),
        LONGEST_SIDE / max(width, height),
    )
