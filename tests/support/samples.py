# SPDX-License-Identifier: Apache-2.0
"""Documents made in memory: as base64, unless the name or the type says otherwise."""

from __future__ import annotations

import base64
import io
import itertools
import struct
import zlib
from collections.abc import Mapping

from PIL import Image
from PIL.TiffImagePlugin import ImageFileDirectory_v2, TiffImageFile

PAGE = (1240, 1754)
# The picture of a simulated page (simulated_page_work.py), named as PaddleX names that of a block.
PICTURE_NAME = "img_in_image_box_10_50_90_130.jpg"


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def picture(size: tuple[int, int] = PAGE, mode: str = "RGB", color="white") -> Image.Image:
    return Image.new(mode, size, color)


def save(image: Image.Image, format: str, **options) -> bytes:
    with io.BytesIO() as buffer:
        image.save(buffer, format, **options)
        return buffer.getvalue()


def image(format: str = "PNG", size: tuple[int, int] = PAGE, mode: str = "RGB", color="white", **options) -> str:
    return encode(save(picture(size, mode, color), format, **options))


def tiff(*sizes: tuple[int, int]) -> str:
    first, *rest = [picture(size) for size in sizes]
    return encode(save(first, "TIFF", save_all=True, append_images=rest))


def tiff_of(tags: Mapping[int, object], *strips: bytes) -> bytes:
    """A TIFF of one page whose directory stands before its strips."""
    directory = ImageFileDirectory_v2()
    places = itertools.accumulate(map(len, strips[:-1]), initial=0)
    for tag, value in {**tags, 273: tuple(places), 279: tuple(map(len, strips))}.items():
        directory[tag] = value
    return b"II*\0\x08\0\0\0" + directory.tobytes(8) + b"".join(strips)


def directory_first(data: bytes) -> bytes:
    """The same for a TIFF as Pillow writes it."""
    with TiffImageFile(io.BytesIO(data)) as image:
        tags = dict(image.tag_v2)
    return tiff_of(tags, *(data[at : at + size] for at, size in zip(tags[273], tags[279], strict=True)))


def png_of_zeros(width: int, height: int) -> str:
    """A black one-bit PNG: a thousandth of its size in memory."""
    row = bytes(1 + (width + 7) // 8)
    packer = zlib.compressobj(1)
    data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", data), (b"IEND", b"")]
    packed = b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )
    return encode(b"\x89PNG\r\n\x1a\n" + packed)


def pdf_bytes(*pages: tuple[float, float], trailer: str = "") -> bytes:
    """A PDF with empty pages of these sizes in points; ``trailer`` is put into its trailer dictionary."""
    kids = " ".join(f"{number} 0 R" for number in range(3, 3 + len(pages)))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>"]
    objects += [f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {height}] >>" for width, height in pages]
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode()
    start = len(out)
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode()
    return out + f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R {trailer} >>\nstartxref\n{start}\n%%EOF\n".encode()


def pdf(*pages: tuple[float, float], trailer: str = "") -> str:
    return encode(pdf_bytes(*pages, trailer=trailer))


def locked_pdf() -> str:
    """A PDF whose standard encryption (RC4, 40 bits) has a user password that nobody knows."""
    entry = "<< /Filter /Standard /V 1 /R 2 /P -4 /O <" + "41" * 32 + "> /U <" + "42" * 32 + "> >>"
    return pdf((595, 842), trailer=f"/Encrypt {entry} /ID [<{'43' * 16}> <{'43' * 16}>]")


def blank_pages(count: int) -> bytes:
    """A PDF of small blank pictures, one on each page."""
    first, *rest = [picture((100, 140), "L", 255) for _ in range(count)]
    return save(first, "PDF", save_all=True, append_images=rest)
