# SPDX-License-Identifier: Apache-2.0
"""Decodes documents in processes of their own: counts pages, reads them, and draws one for people before it is read.
Every mode of every supported image becomes a BGR array on a legible ground."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from PIL import Image

from docparser.documents.page import LONGEST_SIDE, DocumentLimits, Page, note
from docparser.documents.pdf import PdfReader
from docparser.documents.spool import Document, OpenDocument
from docparser.errors import DocumentTooLarge, InvalidDocument, JobNotFound
from docparser.opening import CUT_SHORT, Unreadable, pictures

JPEG_QUALITY = 85
MOST_DRAWN = 40_000_000  # pixels of a page for people; a larger one is shown at a half or a third of its size


class DocumentDecoder:
    def __init__(self, limits: DocumentLimits) -> None:
        self._limits = limits
        self._pdf = PdfReader()

    def close_deleted(self) -> None:
        """Close the documents whose file is gone because their request has ended."""
        self._pdf.close_deleted()

    def count_pages(self, document: OpenDocument) -> int:
        """Raises InvalidDocument; DocumentTooLarge, also for a document with too many pages."""
        is_pdf = document.format == "PDF"
        count = self._pdf.count_pages(document) if is_pdf else count_frames(document, self._limits)
        if count > self._limits.max_pages:
            raise DocumentTooLarge(
                f"file: the document has {count} pages or more; at most {self._limits.max_pages} are allowed "
                "(PARSER_MAX_PAGES)"
            )
        return count

    def read_page(self, document: OpenDocument, index: int, *, own_text: bool = False) -> Page:
        """Page ``index`` (from 0). Raises as above."""
        if document.format == "PDF":
            return self._pdf.read_page(document, index, self._limits, own_text=own_text)
        return read_frame(document, index, self._limits)

    def show_page(self, document: OpenDocument, index: int) -> Image.Image:
        """Page ``index`` (from 0) for people, of MOST_DRAWN pixels at most. Raises as above."""
        if document.format == "PDF":
            most = min(MOST_DRAWN, self._limits.max_pdf_page_pixels)
            limits = dataclasses.replace(self._limits, max_pdf_page_pixels=most)
            page = self._pdf.read_page(document, index, limits, own_text=False)
        else:
            page = read_frame(document, index, self._limits, MOST_DRAWN)
        return Image.fromarray(page.pixels[:, :, ::-1])


def count_frames(document: OpenDocument, limits: DocumentLimits) -> int:
    """The number of pages of a TIFF, at most one more than are allowed; 1 for any other format. Checks the first
    frame's size by its header.

    Raises InvalidDocument, DocumentTooLarge.
    """
    with _refused(f"the {document.format}"), pictures.opened(document.file, document.format) as image:
        _check_size(image, 0, limits)
        return pictures.count_pages(image, limits.max_pages + 1)


def read_frame(document: OpenDocument, index: int, limits: DocumentLimits, most: int | None = None) -> Page:
    """Page ``index`` (from 0), turned upright as EXIF says, in square pixels. A page whose end is missing has a note. A
    page of more than ``most`` pixels is reduced by a whole factor while it is read, because a second copy would take
    300 MB.

    Raises InvalidDocument for a damaged file, DocumentTooLarge before decoding.
    """
    what = f"page {index + 1} of the {document.format}"
    with _refused(what):
        picture = pictures.read(document.file, document.format, index, lambda image: _check_size(image, index, limits))
    notes = [note(CUT_SHORT, f"{what} {picture.lacks}")] if picture.lacks else []
    width, height = picture.image.size
    by = math.ceil(math.sqrt(width * height / most)) if most else 1
    pixels = np.empty((math.ceil(height / by), math.ceil(width / by), 3), np.uint8)
    for top, strip in picture.strips(by):
        rgb = (strip if strip.mode == "RGB" else strip.convert("RGB")).reduce(by)
        rows = np.frombuffer(rgb.tobytes("raw", "BGR"), np.uint8)
        pixels[top // by : top // by + rgb.height] = rows.reshape(rgb.height, rgb.width, 3)
    size = picture.square_size(limits.max_image_pixels, LONGEST_SIDE)
    if size != picture.image.size:
        square = max(1, size[0] // by), max(1, size[1] // by)
        pixels = np.array(Image.fromarray(pixels).resize(square, Image.Resampling.BICUBIC))
    return Page(pixels, notes)


@contextlib.contextmanager
def _refused(what: str) -> Iterator[None]:
    try:
        yield
    except Unreadable as exc:
        raise InvalidDocument(f"file: {what} {exc}") from None


def _check_size(image: Image.Image, index: int, limits: DocumentLimits) -> None:
    width, height = image.size
    if width * height > limits.max_image_pixels:
        raise DocumentTooLarge(
            f"file: page {index + 1} is {width} x {height} = {width * height} pixels; "
            f"at most {limits.max_image_pixels} are allowed (PARSER_MAX_IMAGE_PIXELS)"
        )
    if max(width, height) > LONGEST_SIDE:
        raise DocumentTooLarge(
            f"file: page {index + 1} is {width} x {height} pixels; no side may have more than {LONGEST_SIDE}"
        )


def draw(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """A job of a child process: writes a line of JSON with the document's ``pages``, then the page as JPEG.

    ``args``: ``path`` and ``format`` of the document, ``number`` of the page (from 1), ``limits`` (DocumentLimits).
    ``source`` is empty. Raises InvalidDocument, DocumentTooLarge; JobNotFound for a number beyond the last page.
    """
    decoder = DocumentDecoder(DocumentLimits(**args["limits"]))
    with Document(args["path"], args["format"]).opened() as document:
        count = decoder.count_pages(document)
        if not 1 <= args["number"] <= count:
            raise JobNotFound(f"page {args['number']}: the document has the pages 1 to {count}")
        page = decoder.show_page(document, args["number"] - 1)
    sink.write(json.dumps({"pages": count}).encode() + b"\n")
    page.save(sink, "JPEG", quality=JPEG_QUALITY)
