# SPDX-License-Identifier: Apache-2.0
"""Images: format, number of pages, one page as pixels."""

from __future__ import annotations

import base64
import io
import tempfile

import numpy as np
from PIL import Image

from docparser.documents.decoder import count_frames, read_frame
from docparser.documents.page import DocumentLimits
from docparser.documents.pdf import PdfReader
from docparser.documents.spool import spooled
from docparser.errors import DocumentTooLarge, InvalidDocument
from docparser.own_text.characters import Characters
from docparser.own_text.page_text import OwnText
from docparser.settings import Settings
from file_types import HEAD_BYTES, format_of
from tests.fuzz.verdict import Broken
from tests.support import samples

LIMITS = DocumentLimits.of(
    Settings(
        max_pages=20, max_image_pixels=1_000_000, max_pdf_page_pixels=250_000, max_pdf_objects=2_000, pdf_scale=1.0
    )
)
# On memory where that is possible: an input is written and read thousands of times.
FOLDER = tempfile.TemporaryDirectory(prefix="fuzz-", dir="/dev/shm")


def target(data: bytes) -> None:
    found = format_of(data[:HEAD_BYTES])
    if found is not None and found != "PDF":
        read(data, found)


def read(data: bytes, found: str) -> None:
    """Every page that a service would read, with its own text. Raises Broken for pixels that are not what the contract
    says."""
    from pathlib import Path

    try:
        with spooled(io.BytesIO(data), found, Path(FOLDER.name)) as spool, spool.opened() as document:
            pdf = PdfReader()
            count = pdf.count_pages(document) if found == "PDF" else count_frames(document, LIMITS)
            for index in range(min(count, 3)):
                if found == "PDF":
                    page = pdf.read_page(document, index, LIMITS, own_text=True)
                else:
                    page = read_frame(document, index, LIMITS)
                pixels = page.pixels
                if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
                    raise Broken("a page is uint8 [height, width, 3]")
                if not pixels.flags.c_contiguous:
                    raise Broken("a page lies in memory as it is read")
                height, width = pixels.shape[:2]
                if height * width > LIMITS.max_image_pixels:
                    raise Broken("a page is no larger than the operator allows")
                if page.characters is not None:
                    OwnText(Characters.from_bytes(page.characters.to_bytes()), pixels).outside([])
    except (InvalidDocument, DocumentTooLarge):
        pass


def seeds() -> list[bytes]:
    """Each format with several modes and layouts, a few hundred bytes each."""
    found = []
    for mode, formats in {
        "RGB": ("PNG", "JPEG", "TIFF", "BMP", "WEBP", "JPEG2000", "AVIF", "PPM"),
        "L": ("PNG", "JPEG", "TIFF", "BMP", "GIF", "JPEG2000", "PPM"),
        "RGBA": ("PNG", "TIFF", "WEBP", "JPEG2000", "AVIF"),
        "1": ("PNG", "TIFF", "BMP", "PPM"),
        "P": ("PNG", "TIFF", "BMP", "GIF"),
        "I;16": ("PNG", "TIFF", "JPEG2000"),
        "F": ("TIFF",),
        "CMYK": ("JPEG", "TIFF"),
    }.items():
        found += [samples.save(Image.new(mode, (9, 7)), format) for format in formats]
    found += [
        samples.save(Image.new("RGB", (9, 7)), "TIFF", compression=kind)
        for kind in ("tiff_lzw", "packbits", "tiff_deflate", "jpeg")
    ]
    found.append(samples.directory_first(found[-2]))  # compressed by deflate
    wide = {256: 9, 257: 7, 258: (16, 16, 16), 262: 2, 277: 3}
    found += [
        samples.tiff_of({**wide, 284: 1}, bytes([1, 2] * 189)),
        samples.tiff_of({**wide, 284: 2}, *[bytes(126)] * 3),
    ]
    found += [samples.save(Image.new("1", (9, 7)), "TIFF", compression=kind) for kind in ("group3", "group4")]
    exif = Image.Exif()
    exif[0x0112] = 6
    found.append(samples.save(Image.new("RGB", (9, 7)), "JPEG", exif=exif.tobytes()))
    found.append(base64.b64decode(samples.tiff((5, 4), (3, 3))))
    return found
