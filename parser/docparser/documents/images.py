# SPDX-License-Identifier: Apache-2.0
"""Reading images: every mode of every supported format becomes a BGR array on a legible ground."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import numpy as np
from PIL import Image

from docparser.documents.limits import LONGEST_SIDE, DocumentLimits
from docparser.documents.page import Page, note
from docparser.documents.spool import OpenDocument
from docparser.errors import DocumentTooLarge, InvalidDocument
from docparser.opening import CUT_SHORT, Unreadable, pictures


def count_frames(document: OpenDocument, limits: DocumentLimits) -> int:
    """The number of pages of a TIFF, at most one more than are allowed; 1 for any other format. Checks the first
    frame's size by its header.

    Raises InvalidDocument, DocumentTooLarge.
    """
    with _refused(f"the {document.format}"), pictures.opened(document.file, document.format) as image:
        _check_size(image, 0, limits)
        try:
            return len(list(itertools.islice(pictures.page_frames(image), limits.max_pages + 1)))
        except pictures.DECODE_ERRORS as exc:
            raise Unreadable(f"is damaged ({exc})") from None


def read_frame(document: OpenDocument, index: int, limits: DocumentLimits) -> Page:
    """Page ``index`` (from 0), turned upright as EXIF says, in square pixels. One whose end is missing has a note.

    Raises InvalidDocument for a damaged file, DocumentTooLarge before decoding.
    """
    what = f"page {index + 1} of the {document.format}"
    with _refused(what):
        picture = pictures.read(document.file, document.format, index, lambda image: _check_size(image, index, limits))
    notes = [] if picture.whole else [note(CUT_SHORT, f"{what} is damaged, or its end is missing; the rest was read")]
    pixels = np.empty((picture.image.height, picture.image.width, 3), np.uint8)
    for top, strip in picture.strips():
        rgb = strip if strip.mode == "RGB" else strip.convert("RGB")
        rows = np.frombuffer(rgb.tobytes("raw", "BGR"), np.uint8)
        pixels[top : top + strip.height] = rows.reshape(strip.height, strip.width, 3)
    size = picture.square_size(limits.max_image_pixels, LONGEST_SIDE)
    if size != picture.image.size:
        pixels = np.array(Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC))
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
