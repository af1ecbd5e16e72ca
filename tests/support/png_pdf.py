# SPDX-License-Identifier: Apache-2.0
"""PDF files whose pages show a picture of a PNG file; the standard library is enough."""

from __future__ import annotations

import struct


def chunks(png: bytes, kind: bytes) -> bytes:
    """The contents of all chunks of a kind, one after the other."""
    found, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == kind:
            found += png[at + 8 : at + 8 + length]
        at += 12 + length
    return found


def pdf_of(png: bytes, pages: int) -> bytes:
    """A PDF that shows a picture with a palette on each page: PDF reads the compressed rows of a PNG as they are."""
    width, height, bits, color, *_ = struct.unpack(">IIBBBBB", chunks(png, b"IHDR"))
    assert color == 3, "a picture with a palette"
    rows, palette = chunks(png, b"IDAT"), chunks(png, b"PLTE")
    picture = (
        f"<< /Type /XObject /Subtype /Image /Width {width} /Height {height} /BitsPerComponent {bits} "
        f"/ColorSpace [/Indexed /DeviceRGB {len(palette) // 3 - 1} <{palette.hex()}>] /Filter /FlateDecode "
        f"/DecodeParms << /Predictor 15 /Colors 1 /BitsPerComponent {bits} /Columns {width} >> /Length {len(rows)} >>\n"
    )
    show = "q 595 0 0 842 0 0 cm /P Do Q"
    kids = " ".join(f"{number} 0 R" for number in range(5, 5 + pages))
    page = (
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /XObject << /P 3 0 R >> >> /Contents 4 0 R"
    )
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>".encode(),
        picture.encode() + b"stream\n" + rows + b"\nendstream",
        f"<< /Length {len(show)} >>\nstream\n{show}\nendstream".encode(),
        *[f"{page} >>".encode()] * pages,
    ]
    out, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    out += f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer << /Size {size} /Root 1 0 R >>\n".encode()
    return out + f"startxref\n{out.rindex(b'xref')}\n%%EOF".encode()
