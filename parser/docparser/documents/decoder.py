# SPDX-License-Identifier: Apache-2.0
"""Decodes documents in a renderer: the number of pages, and one page as pixels."""

from __future__ import annotations

import numpy as np

from docparser.documents.images import count_frames, read_frame
from docparser.documents.limits import DocumentLimits
from docparser.documents.pdf import PdfReader
from docparser.documents.spool import Document
from docparser.errors import DocumentTooLarge


class DocumentDecoder:
    def __init__(self, limits: DocumentLimits) -> None:
        self._limits = limits
        self._pdf = PdfReader()

    def count_pages(self, document: Document) -> int:
        """Raises InvalidDocument; DocumentTooLarge, also for a document with too many pages."""
        is_pdf = document.format == "PDF"
        count = self._pdf.count_pages(document) if is_pdf else count_frames(document, self._limits)
        if count > self._limits.max_pages:
            raise DocumentTooLarge(
                f"file: the document has {count} pages or more; at most {self._limits.max_pages} are allowed "
                "(PARSER_MAX_PAGES)"
            )
        return count

    def read_page(self, document: Document, index: int) -> np.ndarray:
        """Page ``index`` (from 0) as uint8 ``[height, width, 3]``, blue first. Raises as above."""
        if document.format == "PDF":
            return self._pdf.read_page(document, index, self._limits)
        return read_frame(document, index, self._limits)
