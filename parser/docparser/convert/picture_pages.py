# SPDX-License-Identifier: Apache-2.0
"""Pictures as pages of a PDF, coded as they came where PDF knows the coding: JPEG, and PNG without transparency.

What else there is keeps its pixels: two colours as fax group 4, others as PNG codes them. WebP and JPEG in TIFF lose
a little, because their pixels alone would be many times as large: they become JPEG.
"""

from __future__ import annotations

import dataclasses
import io
import struct
from pathlib import Path
from typing import cast

import pikepdf
from pikepdf import Array, Dictionary, Name
from PIL import Image, ImageOps
from PIL.TiffImagePlugin import TiffImageFile

Image.MAX_IMAGE_PIXELS = None  # the pictures were parsed before, within the operator's limit

PIXELS_AN_INCH = 144  # of a picture that does not say how large it is
LIKELY_PIXELS_AN_INCH = range(75, 2401)  # 72 is what programs write that do not know
LONGEST_SIDE = 14_400  # points: readers take no larger page
JPEG_QUALITY = 92
ORIENTATION = 0x0112  # the EXIF tag
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


def add_picture(pdf: pikepdf.Pdf, path: Path, image: Image.Image, number: int, side: int) -> PicturePage:
    """Adds a page for frame ``number`` (from 1) of ``image``, which ``path`` holds. Raises what Pillow raises."""
    image.seek(number - 1)
    orientation = image.getexif().get(ORIENTATION, 1)
    turn = UPRIGHT.get(orientation, UPRIGHT[1])
    stored = _stored(pdf, path, image)
    pixels = (image.height, image.width) if turn[0] == 0 else image.size
    width, height = _points(image, pixels)
    a, b, c, d, e, f = (factor * (height if place % 2 else width) for place, factor in enumerate(turn))
    page = pdf.add_blank_page(page_size=(width, height))
    page.add_resource(stored, Name.XObject, Name.Picture)
    page.contents_add(b"q %.4f %.4f %.4f %.4f %.4f %.4f cm /Picture Do Q" % (a, b, c, d, e, f))
    return PicturePage(page, _shown(image, side))


def _points(image: Image.Image, pixels: tuple[int, int]) -> tuple[float, float]:
    said = image.info.get("dpi") or (0, 0)
    density = float(said[0]) if round(said[0]) in LIKELY_PIXELS_AN_INCH else PIXELS_AN_INCH
    points = 72 / density
    points = min(points, LONGEST_SIDE / max(pixels))
    return pixels[0] * points, pixels[1] * points


def _shown(image: Image.Image, side: int) -> Image.Image:
    grey = image.copy() if image.mode in ("L", "RGB") else _plain(image)
    grey.thumbnail((side, side))
    return ImageOps.exif_transpose(grey).convert("L")


def _stored(pdf: pikepdf.Pdf, path: Path, image: Image.Image) -> pikepdf.Stream:
    if image.format in ("JPEG", "MPO") and image.mode in COLOURS:
        return _jpeg(pdf, path.read_bytes(), image)
    if image.format == "PNG" and (stream := _png(pdf, path.read_bytes(), image.size)):
        return stream
    plain = _plain(image)
    if plain.mode == "1":
        return _fax(pdf, plain)
    buffer = io.BytesIO()
    if image.format == "WEBP" or image.info.get("compression") == "jpeg":
        plain.convert("RGB").save(buffer, "JPEG", quality=JPEG_QUALITY)
        return _jpeg(pdf, buffer.getvalue(), plain.convert("RGB"))
    plain.save(buffer, "PNG")
    stream = _png(pdf, buffer.getvalue(), plain.size)
    assert stream is not None, "Pillow writes no interlaced PNG"
    return stream


def _plain(image: Image.Image) -> Image.Image:
    """As 1, L or RGB, on white ground."""
    if image.has_transparency_data:
        over = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", over.size, "white"), over).convert("RGB")
    if image.mode in ("1", "L", "RGB"):
        return image.copy()
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        wide = image.convert("F")
        _, peak = cast(tuple[float, float], wide.getextrema())
        full = max(peak, 65535.0) if image.mode != "F" else 1.0 if peak <= 1 else max(peak, 255.0)
        return wide.point(lambda value: value * (255.0 / full) + 0.0).convert("L")
    return image.convert("RGB")


def _jpeg(pdf: pikepdf.Pdf, data: bytes, image: Image.Image) -> pikepdf.Stream:
    stream = _picture(pdf, data, image.size, 8, COLOURS[image.mode])
    stream.Filter = Name.DCTDecode
    if image.mode == "CMYK" and "adobe" in image.info:  # Adobe's hold inverted values
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
