# SPDX-License-Identifier: Apache-2.0
"""A PDF of pictures, as scanners write them."""

from __future__ import annotations

import zlib
from pathlib import Path

from PIL import Image

from pdf_file import assemble

from ..pages.page import Page


def write_pdf(path: Path, pages: list[Page], dpi: int = 150) -> None:
    """Write a PDF with each page as one losslessly compressed picture. `dpi` is in pixels per inch."""
    objects: list[bytes] = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    kids = []
    for page in pages:
        width, height = page.image.size
        points = f"{width * 72 / dpi:.2f} {height * 72 / dpi:.2f}"
        number = len(objects) + 1
        kids.append(f"{number} 0 R")
        # Sixty-four colours are enough for drawn pages and a third of the size.
        small = page.image.quantize(64, dither=Image.Dither.NONE)
        colours = small.getpalette()
        assert colours is not None, "a quantized picture has a palette"
        palette = bytes(colours[: 64 * 3]).ljust(64 * 3, b"\0").hex()
        data = zlib.compress(small.tobytes(), 9)
        drawing = zlib.compress(f"q {width * 72 / dpi:.2f} 0 0 {height * 72 / dpi:.2f} 0 0 cm /P Do Q".encode())
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {points}] /Contents {number + 1} 0 R "
            f"/Resources << /XObject << /P {number + 2} 0 R >> >> >>".encode(),
            f"<< /Length {len(drawing)} /Filter /FlateDecode >>\nstream\n".encode() + drawing + b"\nendstream",
            f"<< /Type /XObject /Subtype /Image /Width {width} /Height {height} /BitsPerComponent 8 "
            f"/ColorSpace [/Indexed /DeviceRGB 63 <{palette}>] /Filter /FlateDecode /Length {len(data)} >>\n"
            "stream\n".encode()
            + data
            + b"\nendstream",
        ]
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(kids)}] >>".encode()
    path.write_bytes(assemble(objects))
