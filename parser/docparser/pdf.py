# SPDX-License-Identifier: Apache-2.0
"""Reading PDFs, one page at a time."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pypdfium2
from pypdfium2 import PdfiumError

from docparser.errors import InvalidDocument
from docparser.limits import Limits
from docparser.source import Document


class PdfReader:
    """Keeps the last PDF open, since a worker is mostly given one page after the other of the same one."""

    def __init__(self) -> None:
        self._path: str | None = None
        self._pdf: pypdfium2.PdfDocument | None = None

    def close(self) -> None:
        if self._pdf is not None:
            self._pdf.close()
        self._path = self._pdf = None

    def _open(self, document: Document) -> pypdfium2.PdfDocument:
        if self._path != document.path:
            self.close()
            try:
                pdf = pypdfium2.PdfDocument(document.path)
                pdf.init_forms()  # or the text in form fields would not be drawn
            except PdfiumError as exc:
                # PDFium reports an earlier file's error for some files, so its word alone is not enough.
                if "password" in str(exc).lower() and b"/Encrypt" in Path(document.path).read_bytes():
                    raise InvalidDocument("file: the PDF is encrypted; remove its password first") from None
                raise InvalidDocument("file: the PDF is damaged or has no pages") from None
            self._path, self._pdf = document.path, pdf
        return self._pdf

    def count_pages(self, document: Document) -> int:
        """Raises InvalidDocument for a damaged, encrypted or empty PDF."""
        count = len(self._open(document))
        if count < 1:
            raise InvalidDocument("file: the PDF has no pages")
        return count

    def read_page(self, document: Document, index: int, limits: Limits) -> np.ndarray:
        """Page ``index`` (from 0) as uint8 ``[height, width, 3]``, blue first, on white ground.

        Raises InvalidDocument if the page cannot be rendered.
        """
        pdf = self._open(document)
        try:
            page = pdf[index]
            try:
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


def render_scale(width: float, height: float, limits: Limits) -> float:
    """Pixels per point for a page of ``width`` x ``height`` points: the operator's, or less for a large page."""
    if not (width > 0 and height > 0 and math.isfinite(width * height)):
        raise ValueError(f"its size is {width} x {height} points")
    return min(limits.pdf_scale, math.sqrt(limits.max_pdf_page_pixels / (width * height)))
