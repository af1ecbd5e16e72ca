# SPDX-License-Identifier: Apache-2.0
"""Pictures as pages of a PDF, coded as they came where PDF knows the coding: JPEG, and PNG without transparency.

What else there is keeps its pixels: two colours as fax group 4, others as PNG codes them. What came in a coding that
loses something loses a little more, because the pixels alone would be many times as large: it becomes JPEG.
"""

from __future__ import annotations

import dataclasses
import io
import math
import struct
from pathlib import Path

import pikepdf
from pikepdf import Array, Dictionary, Name
from PIL import Image
from PIL.TiffImagePlugin import TiffImageFile

from docparser.opening import pictures
from upright import ON_ITS_SIDE

PIXELS_AN_INCH = 144  # of a picture that does not say how large it is
LIKELY_PIXELS_AN_INCH = range(75, 2401)  # 72 is what programs write that do not know
SHORTEST_SIDE, LONGEST_SIDE = 3, 14_400  # points: readers take no other pages
JPEG_QUALITY = 92
WITH_LOSS = ("JPEG", "WEBP", "JPEG2000", "AVIF")
# How a stored picture is laid onto the page: from the unit square to width and height, by its EXIF orientation.
UPRIGHT = {
    1: (1, 0, 0, 1, 0, 0),
    2: (-1, 0, 0, 1, 1, 0),
    3: (-1, 0, 0, -1, 1, 1),
    4: (1, 0, 0, -1, 0, 1),
    5: (0, -1, -1, 0, 1, 1),
    6: (0, -1, 1, 0, 0, 1),
    7: (0, 1, 1, 0, 0, 0),
    8: (0, 1, -1, 0, 1, 0),
}
COLOURS = {"L": Name.DeviceGray, "RGB": Name.DeviceRGB, "CMYK": Name.DeviceCMYK}


@dataclasses.dataclass(frozen=True)
class PicturePage:
    """``shown``: the picture in grey and upright, at most ``side`` pixels on a side."""

    page: pikepdf.Page
    shown: Image.Image


def add_picture(pdf: pikepdf.Pdf, path: Path, format: str, number: int, side: int) -> PicturePage:
    """Adds a page for page ``number`` (from 1) of the picture in ``path``. Raises Unreadable."""
    picture = pictures.read(path, format, number - 1)
    plain = picture.plain()
    upright = picture.square_size(math.inf, math.inf)
    turn, stored = UPRIGHT.get(picture.turned, UPRIGHT[1]), _as_coded(pdf, path, format, picture)
    if stored is None:
        turn, stored = UPRIGHT[1], _coded_anew(pdf, format, picture, plain)
    width, height = _points(picture.image, upright)
    a, b, c, d, e, f = (factor * (height if place % 2 else width) for place, factor in enumerate(turn))
    page = pdf.add_blank_page(page_size=(width, height))
    page.add_resource(stored, Name.XObject, Name.Picture)
    page.contents_add(b"q %.4f %.4f %.4f %.4f %.4f %.4f cm /Picture Do Q" % (a, b, c, d, e, f))
    scale = min(1.0, side / max(upright))
    shown = max(1, round(upright[0] * scale)), max(1, round(upright[1] * scale))
    return PicturePage(page, plain.convert("L").resize(shown, Image.Resampling.BICUBIC, reducing_gap=2.0))


def _points(image: Image.Image, pixels: tuple[int, int]) -> tuple[float, float]:
    density = max(map(pictures.resolution, image.info.get("dpi") or (0, 0)))
    points = 72 / (density if round(density) in LIKELY_PIXELS_AN_INCH else PIXELS_AN_INCH)
    points = min(max(points, SHORTEST_SIDE / min(pixels)), LONGEST_SIDE / max(pixels))
    return max(pixels[0] * points, SHORTEST_SIDE), max(pixels[1] * points, SHORTEST_SIDE)


def _as_coded(pdf: pikepdf.Pdf, path: Path, format: str, picture: pictures.Picture) -> pikepdf.Stream | None:
    """The picture as its file codes it, if PDF can hold that."""
    image = picture.image
    size = (image.height, image.width) if picture.turned in ON_ITS_SIDE else image.size
    if not picture.lacks and format == "JPEG" and image.mode in COLOURS:
        return _jpeg(pdf, path.read_bytes(), size, image.mode, inverted="adobe" in image.info)
    if not picture.lacks and format == "PNG":
        return _png(pdf, path.read_bytes(), size)
    return None


def _coded_anew(pdf: pikepdf.Pdf, format: str, picture: pictures.Picture, plain: Image.Image) -> pikepdf.Stream:
    if plain.mode == "1":
        return _fax(pdf, plain)
    buffer = io.BytesIO()
    if format in WITH_LOSS or picture.image.info.get("compression") == "jpeg":
        plain.save(buffer, "JPEG", quality=JPEG_QUALITY)
        return _jpeg(pdf, buffer.getvalue(), plain.size, plain.mode, inverted=False)
    plain.save(buffer, "PNG")
    stream = _png(pdf, buffer.getvalue(), plain.size)
    assert stream is not None, "Pillow writes no interlaced PNG"
    return stream


def _jpeg(pdf: pikepdf.Pdf, data: bytes, size: tuple[int, int], mode: str, *, inverted: bool) -> pikepdf.Stream:
    stream = _picture(pdf, data, size, 8, COLOURS[mode])
    stream.Filter = Name.DCTDecode
    if mode == "CMYK" and inverted:  # as Adobe's values are
        stream.Decode = Array([1, 0] * 4)
    return stream


def _fax(pdf: pikepdf.Pdf, image: Image.Image) -> pikepdf.Stream:
    buffer = io.BytesIO()
    image.save(buffer, "TIFF", compression="group4", strip_size=1 << 30)  # one strip: each is coded by itself
    data = buffer.getvalue()
    with TiffImageFile(io.BytesIO(data)) as coded:
        (start,), (size,) = coded.tag_v2[273], coded.tag_v2[279]
        white_is_zero = coded.tag_v2[262] == 0
    stream = _picture(pdf, data[start : start + size], image.size, 1, Name.DeviceGray)
    stream.Filter = Name.CCITTFaxDecode
    stream.DecodeParms = Dictionary(K=-1, Columns=image.width, Rows=image.height, BlackIs1=not white_is_zero)
    return stream


def _png(pdf: pikepdf.Pdf, data: bytes, size: tuple[int, int]) -> pikepdf.Stream | None:
    """The pixels as they are coded in a PNG; None if PDF cannot hold them (transparent, interlaced, 16 bits)."""
    chunks: dict[bytes, bytes] = {}
    packed, at = [], 8
    while at + 8 <= len(data):
        length, kind = struct.unpack(">L4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        if kind == b"IDAT":
            packed.append(body)
        chunks.setdefault(kind, body)
        at += 12 + length
    *_, depth, colour, _, _, interlaced = struct.unpack(">LLBBBBB", chunks[b"IHDR"])
    if interlaced or depth > 8 or b"tRNS" in chunks or colour not in (0, 2, 3):
        return None
    space: pikepdf.Object = Name.DeviceRGB if colour == 2 else Name.DeviceGray
    if colour == 3:
        palette = chunks.get(b"PLTE", b"\0\0\0")
        space = Array([Name.Indexed, Name.DeviceRGB, len(palette) // 3 - 1, pikepdf.String(palette)])
    stream = _picture(pdf, b"".join(packed), size, depth, space)
    stream.Filter = Name.FlateDecode
    channels = 3 if colour == 2 else 1
    stream.DecodeParms = Dictionary(Predictor=15, Colors=channels, BitsPerComponent=depth, Columns=size[0])
    return stream


def _picture(pdf: pikepdf.Pdf, data: bytes, size: tuple[int, int], depth: int, space: pikepdf.Object) -> pikepdf.Stream:
    stream = pikepdf.Stream(pdf, data)
    stream.Type, stream.Subtype = Name.XObject, Name.Image
    stream.Width, stream.Height = size
    stream.BitsPerComponent, stream.ColorSpace = depth, space
    return stream
