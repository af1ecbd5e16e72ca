# SPDX-License-Identifier: Apache-2.0
"""A PDF of one JPEG a page. Each picture is written as it comes, so only one is in memory.

Libraries that make PDFs keep every picture until the file is saved, and so does joining PDFs of one page with qpdf
(40 MiB for a thousand pages of 43 KiB). A JPEG goes into a PDF as it is (filter DCTDecode, ISO 32000-1, 7.4.8), which
leaves little to write besides.
"""

from __future__ import annotations

import io
from typing import BinaryIO

from PIL import Image

CATALOG, PAGES = 1, 2  # object numbers
# Pillow's mode -> colour space; Adobe's CMYK JPEGs hold inverted values.
COLOURS = {
    "L": b"/ColorSpace /DeviceGray",
    "RGB": b"/ColorSpace /DeviceRGB",
    "CMYK": b"/ColorSpace /DeviceCMYK /Decode [1 0 1 0 1 0 1 0]",
}


def as_jpeg(picture: bytes) -> bytes:
    """The picture as a JPEG that a PDF can hold, re-encoded only if needed. Raises ValueError if it is no picture."""
    try:
        with Image.open(io.BytesIO(picture)) as image:
            if image.format == "JPEG" and image.mode in COLOURS:
                return picture
            buffer = io.BytesIO()
            image.convert("RGB").save(buffer, "JPEG", quality=90)
            return buffer.getvalue()
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"the picture cannot be read ({error})") from error


class PicturePdf:
    """Writes to `stream` from its beginning; ``close`` makes the file complete, and leaves the stream open."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._offsets = [0, 0]  # bytes; of the objects in the order of their numbers, which begin with 1
        self._kids: list[int] = []
        stream.write(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")  # the second line says that the file is binary

    @property
    def count(self) -> int:
        """Pages so far."""
        return len(self._kids)

    def add(self, jpeg: bytes, points: tuple[float, float] | None) -> None:
        """A page of `points` (width and height in 1/72 inch; None: 144 pixels an inch) that the picture fills.

        `jpeg` is what ``as_jpeg`` gives; it is not encoded anew.
        """
        with Image.open(io.BytesIO(jpeg)) as image:
            pixels, colours = image.size, COLOURS[image.mode]
        width, height = points or (pixels[0] / 2, pixels[1] / 2)
        shown = self._object(
            b"<< /Type /XObject /Subtype /Image /Width %d /Height %d %b /BitsPerComponent 8 /Filter /DCTDecode "
            b"/Length %d >>" % (*pixels, colours, len(jpeg)),
            jpeg,
        )
        content = b"q %.2f 0 0 %.2f 0 0 cm /P Do Q" % (width, height)
        drawn = self._object(b"<< /Length %d >>" % len(content), content)
        page = self._object(
            b"<< /Type /Page /Parent %d 0 R /MediaBox [0 0 %.2f %.2f] /Resources << /XObject << /P %d 0 R >> >> "
            b"/Contents %d 0 R >>" % (PAGES, width, height, shown, drawn)
        )
        self._kids.append(page)

    def close(self) -> None:
        """Write the list of pages, the catalogue, and the table of all objects."""
        kids = b" ".join(b"%d 0 R" % kid for kid in self._kids)
        self._object(b"<< /Type /Pages /Count %d /Kids [%b] >>" % (len(self._kids), kids), number=PAGES)
        self._object(b"<< /Type /Catalog /Pages %d 0 R >>" % PAGES, number=CATALOG)
        table = self._stream.tell()
        size = len(self._offsets) + 1
        self._stream.write(b"xref\n0 %d\n0000000000 65535 f \n" % size)
        for offset in self._offsets:
            self._stream.write(b"%010d 00000 n \n" % offset)
        self._stream.write(b"trailer\n<< /Size %d /Root %d 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, CATALOG, table))

    def _object(self, dictionary: bytes, stream: bytes | None = None, number: int | None = None) -> int:
        """Write an object, with the stream that belongs to it if there is one; returns its number."""
        if number is None:
            self._offsets.append(0)
            number = len(self._offsets)
        self._offsets[number - 1] = self._stream.tell()
        self._stream.write(b"%d 0 obj\n%b\n" % (number, dictionary))
        if stream is not None:
            self._stream.write(b"stream\n%b\nendstream\n" % stream)
        self._stream.write(b"endobj\n")
        return number
