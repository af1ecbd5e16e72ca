# SPDX-License-Identifier: Apache-2.0
"""Pictures and PDFs as cameras, scanners, fax machines and libraries write them."""

from __future__ import annotations

import io
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pikepdf
import pytest
from PIL import Image, ImageDraw
from PIL.TiffImagePlugin import ImageFileDirectory_v2, TiffImageFile

from docparser.documents.decoder import DocumentDecoder
from docparser.documents.page import LONGEST_SIDE, DocumentLimits, Page
from docparser.documents.spool import Document
from docparser.errors import InvalidDocument
from docparser.settings import Settings
from file_types import HEAD_BYTES, format_of
from tests.support import samples


@pytest.fixture
def pages(tmp_path) -> Callable[[bytes], list[Page]]:
    """All pages of a document."""
    decoder = DocumentDecoder(DocumentLimits.of(Settings()))

    def read(data: bytes) -> list[Page]:
        path = tmp_path / f"document-{random.randrange(1 << 32)}"
        path.write_bytes(data)
        format = format_of(data[:HEAD_BYTES])
        assert format is not None
        with Document(str(path), format).opened() as document:
            return [decoder.read_page(document, index) for index in range(decoder.count_pages(document))]

    return read


def drawing(size: tuple[int, int] = (60, 40), ink: int = 0) -> Image.Image:
    """Grey: ink in the left half, paper in the right."""
    image = Image.new("L", size, 255 - ink)
    image.paste(ink, (0, 0, size[0] // 2, size[1]))
    return image


def halves(page: Page) -> tuple[int, int]:
    """The grey of the left half and of the right."""
    height, width = page.pixels.shape[:2]
    return int(page.pixels[height // 2, width // 4, 1]), int(page.pixels[height // 2, width * 3 // 4, 1])


def tiff(image: Image.Image, **tags: object) -> bytes:
    """With these tags, named by their numbers after a t: ``t282=204.0``."""
    directory = ImageFileDirectory_v2()
    for name, value in tags.items():
        directory[int(name[1:])] = value
    return samples.save(image, "TIFF", tiffinfo=directory)


def raw_tiff(
    width: int, height: int, pixels: bytes, *, bits: int, white_is_zero: bool = False, format: int = 1
) -> bytes:
    """One uncompressed strip of grey, as Pillow does not write it."""
    tags = [(256, 4, width), (257, 4, height), (258, 3, bits), (259, 3, 1), (262, 3, 0 if white_is_zero else 1),
            (273, 4, 8), (277, 3, 1), (278, 4, height), (279, 4, len(pixels)), (339, 3, format)]  # fmt: skip
    body = b"".join(tag.to_bytes(2, "little") + kind.to_bytes(2, "little") + (1).to_bytes(4, "little")
                    + value.to_bytes(4, "little") for tag, kind, value in tags)  # fmt: skip
    directory = len(tags).to_bytes(2, "little") + body + bytes(4)
    return b"II*\0" + (8 + len(pixels)).to_bytes(4, "little") + pixels + directory


def words_of(kind: str, left: float, right: float, width: int = 60, height: int = 40) -> bytes:
    return np.repeat([[left, right]], width // 2, axis=1).repeat(height, axis=0).astype(kind).tobytes()


def twelve_bits(left: int, right: int) -> bytes:
    pairs = [(left, left)] * 15 + [(right, right)] * 15
    return b"".join(((a << 12) | b).to_bytes(3, "big") for a, b in pairs) * 40


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (raw_tiff(60, 40, words_of("<u2", 0, 65535), bits=16), (0, 255)),
        (raw_tiff(60, 40, words_of("<u2", 65535, 0), bits=16, white_is_zero=True), (0, 255)),
        (raw_tiff(60, 40, words_of("<u2", 0, 4095), bits=16), (0, 255)),
        (raw_tiff(60, 40, words_of("<u2", 0x8000, 0xFFFF), bits=16), (127, 255)),
        (raw_tiff(60, 40, twelve_bits(0, 4095), bits=12), (0, 255)),
        (raw_tiff(60, 40, words_of("<u4", 0, 2**32 - 1), bits=32), (0, 255)),
        (raw_tiff(60, 40, words_of("<u4", 2**30, 2**32 - 1), bits=32), (63, 255)),
        (raw_tiff(60, 40, words_of("<i2", -5, 30000), bits=16, format=2), (0, 233)),
        (raw_tiff(60, 40, words_of("<f4", 0, 1), bits=32, format=3), (0, 255)),
        (raw_tiff(60, 40, words_of("<f4", np.inf, 1), bits=32, format=3), (0, 255)),
        (raw_tiff(60, 40, words_of("<f4", np.nan, 200), bits=32, format=3), (0, 200)),
        (raw_tiff(60, 40, words_of("u1", 255, 0), bits=8, white_is_zero=True), (0, 255)),
    ],
)
def test_greys_of_any_width_are_shown_from_black_to_white(pages, data, expected):
    (page,) = pages(data)
    assert halves(page) == pytest.approx(expected, abs=1)


def chunk(name: bytes, data: bytes, damage: int = 0) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data) ^ damage)


def colours(full: int, shade: float = 0.0) -> np.ndarray:
    """Red, green, blue in words: ink in the left half, paper in the right."""
    row = [[[round(full * shade)] * 3]] * 30 + [[[full] * 3]] * 30
    return np.array([row] * 40, ">u2").reshape(40, 60, 3)


def wide_png(samples_of: np.ndarray, kind: int) -> bytes:
    height, width = samples_of.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in samples_of)
    header = struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def wide_tiff(
    samples_of: np.ndarray, colours: int, *, planes: bool = False, packed: bool = False, **tags: int
) -> bytes:
    height, width, count = samples_of.shape
    parts = [samples_of[:, :, band] for band in range(count)] if planes else [samples_of]
    strips = [part.astype("<u2").tobytes() for part in parts]
    return samples.tiff_of(
        {256: width, 257: height, 258: (16,) * count, 259: 8 if packed else 1, 262: colours, 277: count, 278: height}
        | {284: 2 if planes else 1, **{int(name[1:]): value for name, value in tags.items()}},
        *(zlib.compress(strip) if packed else strip for strip in strips),
    )


def with_alpha(image: np.ndarray, alpha: int) -> np.ndarray:
    return np.concatenate([image, np.full_like(image[:, :, :1], alpha)], axis=2)


def dot(full: int) -> np.ndarray:
    """All ink in a corner, none elsewhere."""
    inks = np.zeros((40, 60, 4), np.uint16)
    inks[0, 0] = full
    return inks


WIDE: dict[str, Callable[[int], bytes]] = {
    "PNG": lambda full: wide_png(colours(full, 0.5), 2),
    "PNG with alpha": lambda full: wide_png(with_alpha(colours(full, 0.5), full), 6),
    "PNG with alpha of 16 bits": lambda full: wide_png(with_alpha(colours(full, 0.5), 65535), 6),
    "PNG of grey with alpha": lambda full: wide_png(with_alpha(colours(full, 0.5), full)[:, :, 2:], 4),
    "TIFF": lambda full: wide_tiff(colours(full, 0.5), 2),
    "TIFF by deflate": lambda full: wide_tiff(colours(full, 0.5), 2, packed=True),
    "TIFF with alpha": lambda full: wide_tiff(with_alpha(colours(full, 0.5), full), 2, t338=2),
    "TIFF in planes": lambda full: wide_tiff(colours(full, 0.5), 2, planes=True),
    "TIFF in CMYK": lambda full: wide_tiff(np.maximum(with_alpha(full - colours(full, 0.5), 0), dot(full)), 5),
    "PPM": lambda full: b"P6 60 40 65535\n" + colours(full, 0.5).tobytes(),
}


@pytest.mark.parametrize("full", [255, 1023, 4095, 16383, 65535])
@pytest.mark.parametrize("make", WIDE.values(), ids=WIDE)
def test_colours_of_few_bits_in_16_are_shown_in_full(pages, make, full):
    (page,) = pages(make(full))
    assert halves(page) == pytest.approx((128, 255), abs=2) and page.pixels.shape == (40, 60, 3)


@pytest.mark.parametrize("largest", [255, 65535])
def test_a_palette_of_8_bit_values_is_one(pages, largest):
    image = Image.new("P", (60, 40), 1)
    image.paste(2, (0, 0, 30, 40))
    image.putpalette([0, 0, 0, 255, 255, 255, 60, 60, 60])
    data = samples.save(image, "TIFF")
    with Image.open(io.BytesIO(data)) as stored:
        colours = cast(TiffImageFile, stored).tag_v2[320]
        coded = b"".join(value.to_bytes(2, "little") for value in colours)
    assert coded in data and max(colours) > 255
    if largest == 255:
        data = data.replace(coded, b"".join((value >> 8).to_bytes(2, "little") for value in colours))
    (page,) = pages(data)
    assert halves(page) == (60, 255)


@pytest.mark.parametrize(
    ("resolution", "orientation", "size"),
    [
        ((204.0, 98.0), 1, (60, 83)),
        ((98.0, 204.0), 1, (124, 40)),
        *(((204.0, 98.0), turned, (83, 60)) for turned in (5, 7, 8)),
        ((204.0, 98.0), 6, (83, 60)),  # pixels are twice as high as wide before they are turned
        ((204.0, 196.0), 1, (60, 40)),
        ((110.0, 100.0), 1, (60, 40)),
        ((112.0, 100.0), 1, (60, 44)),
        ((490.0, 100.0), 1, (60, 196)),
        ((500.0, 100.0), 1, (60, 40)),
        ((300.0, 1.0), 1, (60, 40)),
        ((0.0, 98.0), 1, (60, 40)),
    ],
)
def test_pixels_become_square(pages, resolution, orientation, size):
    data = tiff(drawing(), t282=resolution[0], t283=resolution[1], t296=2, t274=orientation)
    (page,) = pages(data)
    assert page.pixels.shape[1::-1] == size


def exif(*tags: tuple[int, int, bytes]) -> bytes:
    """Of tags with one value each: number, kind, and the value in four bytes (TIFF 6.0)."""
    entries = b"".join(struct.pack("<HHI", tag, kind, 1) + value for tag, kind, value in tags)
    return b"Exif\0\0II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4)


TURNED = (274, 3, b"\6\0\0\0")


def png(image: Image.Image, aspect: tuple[int, int]) -> bytes:
    """Tells the shape of its pixels and not their size."""
    data = samples.save(image, "PNG")
    return data[:33] + chunk(b"pHYs", struct.pack(">IIB", *aspect, 0)) + data[33:]


def jpeg(image: Image.Image, unit: int, density: tuple[int, int]) -> bytes:
    data = samples.save(image, "JPEG")
    at = data.index(b"JFIF\0") + 7
    return data[:at] + struct.pack(">BHH", unit, *density) + data[at + 5 :]


@pytest.mark.parametrize(
    ("data", "size"),
    [
        *((samples.save(drawing(), format, dpi=(204, 98)), (60, 83)) for format in ("PNG", "JPEG", "BMP")),
        *((samples.save(drawing(), format, dpi=(204, 196)), (60, 40)) for format in ("PNG", "JPEG", "BMP")),
        *((samples.save(drawing(), format, dpi=(300, 1)), (60, 40)) for format in ("PNG", "JPEG", "BMP")),
        (png(drawing(), (2, 1)), (60, 80)),
        (png(drawing(), (0, 1)), (60, 40)),
        (jpeg(drawing(), 0, (2, 1)), (60, 80)),
        (jpeg(drawing(), 2, (80, 38)), (60, 84)),
        *((jpeg(drawing(), unit, density), (60, 40)) for unit in (0, 1, 2) for density in ((1, 1), (0, 0), (0, 72))),
    ],
)
def test_pixels_of_other_formats_become_square(pages, data, size):
    (page,) = pages(data)
    assert page.pixels.shape[1::-1] == size


@pytest.mark.parametrize("format", ["PNG", "JPEG"])
def test_pixels_become_square_before_they_are_turned(pages, format):
    (page,) = pages(samples.save(drawing().convert("RGB"), format, dpi=(204, 98), exif=exif(TURNED)))
    assert page.pixels.shape[1::-1] == (83, 60)


def test_reduced_copies_and_masks_of_a_tiff_are_no_pages(pages):
    frames = []
    for width, kind in ((20, 1), (60, 0), (30, 1), (60, 4), (50, 2)):
        frame = drawing((width, 40))
        frame.encoderinfo = {"tiffinfo": {254: kind}}
        frames.append(frame)
    buffer = io.BytesIO()
    frames[0].save(buffer, "TIFF", save_all=True, append_images=frames[1:], tiffinfo={254: 1})
    assert [page.pixels.shape[1] for page in pages(buffer.getvalue())] == [60, 50]
    assert len(pages(tiff(drawing(), t254=1))) == 1, "a file with nothing else"


def test_a_second_picture_of_a_camera_and_frames_of_an_animation_are_no_pages(pages):
    exif = Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    drawing().save(buffer, "MPO", save_all=True, append_images=[drawing((20, 10))], exif=exif)
    (photo,) = pages(buffer.getvalue())
    assert photo.pixels.shape[1::-1] == (40, 60)
    for format in ("WEBP", "GIF", "PNG", "AVIF"):
        frames = [drawing(ink=ink).convert("RGB") for ink in (0, 90)]
        animation = samples.save(frames[0], format, save_all=True, append_images=frames[1:])
        (page,) = pages(animation)
        assert halves(page) == pytest.approx((0, 255), abs=8), format


@pytest.mark.parametrize("format", ["GIF", "JPEG2000", "AVIF", "PPM", "PNG", "WEBP", "BMP"])
def test_every_format_is_told_and_read(pages, format):
    (page,) = pages(samples.save(drawing((128, 96)).convert("RGB"), format))
    assert page.pixels.shape == (96, 128, 3) and halves(page) == pytest.approx((0, 255), abs=8) and not page.notes


def text(colour: tuple[int, ...], share: float = 0.2) -> Image.Image:
    image = Image.new("RGBA", (100, 100), (*colour[:3], 0))
    ImageDraw.Draw(image).rectangle((0, 0, 99, round(100 * share) - 1), fill=colour)
    return image


@pytest.mark.parametrize(
    ("image", "ground", "print"),
    [
        (text((255, 255, 255, 255)), 255, 0),  # as its negative: dark print on white paper
        (text((255, 230, 90, 255)), 0, (90, 230, 255)),
        (text((0, 0, 0, 255)), 255, 0),
        (text((120, 120, 120, 255)), 255, 120),
        (text((255, 255, 255, 255), share=0.8), 255, 255),  # a white card with transparent corners
        (Image.new("RGBA", (100, 100), (255, 255, 255, 0)), 255, 255),
    ],
)
@pytest.mark.parametrize("format", ["PNG", "WEBP", "TIFF"])
def test_transparent_pictures_stand_on_the_ground_that_makes_them_legible(pages, image, ground, print, format):
    (page,) = pages(samples.save(image, format, **({"lossless": True} if format == "WEBP" else {})))
    assert (page.pixels[99, 99] == ground).all() and (page.pixels[1, 1] == print).all()


EXIF = {
    "usual": (exif(TURNED), (40, 60)),
    "a make that is no text": (exif((271, 11, struct.pack("<f", 1.5)), TURNED), (40, 60)),
    "a resolution that is text": (exif(TURNED, (282, 2, b"7\0\0\0")), (40, 60)),
    "a negative place of colours": (exif(TURNED, (531, 8, b"\xff\xff\0\0")), (40, 60)),
    "no such orientation": (exif((274, 3, bytes(4))), (60, 40)),
    "zeros": (b"Exif\0\0" + bytes(20), (60, 40)),
    "text": (b"Exif\0\0no TIFF at all", (60, 40)),
    "cut": (b"Exif\0\0II*\0", (60, 40)),
}


@pytest.mark.parametrize(("data", "size"), EXIF.values(), ids=EXIF)
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_a_picture_is_turned_as_exif_says_whatever_else_that_says(pages, data, size, format):
    (page,) = pages(samples.save(drawing().convert("RGB"), format, exif=data))
    assert page.pixels.shape[1::-1] == size and not page.notes


EXTRA = {
    "a diagram": chunk(b"zTXt", b"mxfile\0\0" + zlib.compress(bytes(2 << 20))),
    "long XMP": chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(bytes(2 << 20))),
    "a damaged text": chunk(b"tEXt", b"Software\0x", damage=1),
}


@pytest.mark.parametrize("extra", EXTRA.values(), ids=EXTRA)
@pytest.mark.parametrize("at", [33, -12])
def test_a_png_is_whole_whatever_is_written_before_or_behind_its_pixels(pages, extra, at):
    data = samples.save(drawing(), "PNG")
    (page,) = pages(data[:at] + extra + data[at:])
    assert halves(page) == (0, 255) and not page.notes


@pytest.mark.parametrize(("format", "length"), [("GIF", 8), ("TIFF", 8), ("PNG", 24)])
def test_a_picture_of_which_only_the_first_bytes_are_left_is_called_damaged(pages, format, length):
    with pytest.raises(InvalidDocument, match="is damaged"):
        pages(samples.save(drawing(), format)[:length])


@pytest.mark.parametrize(("alpha", "left"), [(0, 0), (255, 0), (128, 127)])
def test_a_bmp_whose_fourth_bytes_are_all_zero_is_opaque(pages, alpha, left):
    pixels = np.concatenate([np.asarray(drawing().convert("RGB")), np.full((40, 60, 1), alpha, np.uint8)], axis=2)
    header = struct.pack("<IiiHHIIiiII", 124, 60, -40, 1, 32, 3, pixels.size, 0, 0, 0, 0)
    masks = struct.pack("<IIII", 0xFF0000, 0xFF00, 0xFF, 0xFF000000).ljust(84, b"\0")
    data = header + masks + pixels.tobytes()
    (page,) = pages(b"BM" + struct.pack("<IHHI", 14 + len(data), 0, 0, 14 + 124) + data)
    assert halves(page) == pytest.approx((left, 255), abs=1)


@pytest.mark.parametrize(("tags", "left"), [({}, 0), ({338: 2}, 255)])
def test_fourth_samples_of_a_tiff_that_are_all_zero_are_no_alpha_unless_it_says_so(pages, tags, left):
    pixels = np.concatenate([np.asarray(drawing().convert("RGB")), np.zeros((40, 60, 1), np.uint8)], axis=2)
    sizes = {256: 60, 257: 40, 258: (8,) * 4, 259: 1, 262: 2, 277: 4, 278: 40}
    (page,) = pages(samples.tiff_of({**sizes, **tags}, pixels.tobytes()))
    assert halves(page) == (left, 255)


@pytest.mark.parametrize("format", ["PNG", "WEBP", "TIFF"])
def test_a_picture_of_which_viewers_show_nothing_is_empty(pages, format):
    image = drawing().convert("RGBA")
    image.putalpha(0)
    (page,) = pages(samples.save(image, format, **({"lossless": True, "exact": True} if format == "WEBP" else {})))
    assert (page.pixels == 255).all()


def noise(size: tuple[int, int] = (120, 90)) -> Image.Image:
    return Image.fromarray(np.random.default_rng(7).integers(0, 255, (*size[::-1], 3), np.uint8))


@pytest.mark.parametrize(
    ("format", "options"),
    [("JPEG", {}), ("JPEG", {"progressive": True}), ("PNG", {}), ("GIF", {}), ("BMP", {}), ("TIFF", {}), ("PPM", {})],
)
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_picture_whose_end_is_missing_is_read_with_a_note(pages, format, options, share):
    data = samples.save(noise(), format, **options)
    (whole,) = pages(data)
    (cut,) = pages(data[: int(len(data) * share)])
    assert not whole.notes and [note["kind"] for note in cut.notes] == ["cut_short"]
    assert cut.pixels.shape == whole.pixels.shape
    rows = slice(-10, None) if format == "BMP" else slice(10)  # a BMP begins at the foot
    assert np.abs(cut.pixels[rows].astype(int) - whole.pixels[rows]).mean() < 60


def test_a_jpeg_without_its_end_mark_is_whole(pages):
    data = samples.save(noise(), "JPEG")
    (cut,), (whole,) = pages(data[:-2]), pages(data)
    assert (cut.pixels == whole.pixels).all() and cut.notes


PACKED = ["group3", "group4", "tiff_lzw", "tiff_deflate", "packbits", "jpeg"]


def printed(compression: str, **options: object) -> dict[str, Any]:
    mode = "1" if compression.startswith("group") else "RGB"
    return {"image": noise((400, 300)).convert(mode), "format": "TIFF", "compression": compression, **options}


@pytest.mark.parametrize("compression", ["raw", *PACKED])
@pytest.mark.parametrize(("share", "left"), [(0.7, (3, 4)), (0.95, (4, 5))])
def test_whole_pages_of_a_tiff_whose_end_is_missing_are_read(pages, compression, share, left):
    first = printed(compression)
    data = samples.save(**first, save_all=True, append_images=[first["image"]] * 4)
    whole, read = pages(data), pages(data[: int(len(data) * share)])
    assert len(whole) == 5 and len(read) in left
    assert all((page.pixels == whole[0].pixels).all() and not page.notes for page in read[:-1])
    (note,) = read[-1].notes
    assert note["kind"] == "cut_short" and f"page {len(read)} of the TIFF" in note["message"]


def test_a_further_page_of_a_kind_that_is_not_read_is_no_missing_end(pages):
    data = samples.save(drawing(), "TIFF", save_all=True, append_images=[drawing()])
    at = data.rindex(struct.pack("<HHI", 259, 3, 1))
    with pytest.raises(InvalidDocument, match="of a kind that is not read here"):
        pages(data[: at + 8] + struct.pack("<H", 34661) + data[at + 10 :])


@pytest.mark.parametrize("compression", PACKED)
@pytest.mark.parametrize("turned", [1, 6])
def test_strips_before_a_missing_end_are_read(pages, compression, turned):
    data = samples.directory_first(samples.save(**printed(compression, strip_size=8192, tiffinfo={274: turned})))
    (whole,), (cut,) = pages(data), pages(data[: int(len(data) * 0.7)])
    assert not whole.notes and [note["kind"] for note in cut.notes] == ["cut_short"]
    assert whole.pixels.shape == cut.pixels.shape
    rows = np.s_[:120] if turned == 1 else np.s_[:, -120:]
    assert (cut.pixels[rows] == whole.pixels[rows]).all()


@pytest.mark.parametrize("compression", ["group3", "group4", "jpeg"])
def test_a_fax_or_jpeg_in_one_strip_is_read_as_far_as_it_goes(pages, compression):
    data = samples.directory_first(samples.save(**printed(compression, strip_size=1 << 30)))
    (whole,), (cut,) = pages(data), pages(data[: int(len(data) * 0.7)])
    assert [note["kind"] for note in cut.notes] == ["cut_short"]
    assert (cut.pixels[:180] == whole.pixels[:180]).all()


def test_a_strip_that_says_it_is_endless_takes_no_memory(pages):
    data = samples.directory_first(samples.save(**printed("group4", strip_size=1 << 30)))
    size = struct.pack("<HHI", 279, 4, 1)
    at = data.index(size) + 8
    with pytest.raises(InvalidDocument, match="truncated or damaged"):
        pages(data[:at] + b"\xff\xff\xff\x7f" + data[at + 4 :])


def test_a_damaged_avif_is_refused(pages):
    data = samples.save(noise(), "AVIF")
    at = data.index(b"mdat") + 4
    with pytest.raises(InvalidDocument, match="AVIF is truncated or damaged"):
        pages(data[:at] + bytes(len(data) - at))


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "AVIF", "JPEG2000"])
def test_a_picture_of_which_nothing_is_left_is_refused(pages, format):
    data = samples.save(noise(), format)
    begins = {"JPEG": b"\xff\xda", "PNG": b"IDAT"}.get(format)
    with pytest.raises(InvalidDocument, match=f"file: .*{format} is "):
        pages(data[: data.index(begins) + 4 if begins else len(data) // 2])


def pdf(path: Path, size: tuple[float, float], *, content: bytes = b"", unit: object = None, **save: Any) -> bytes:
    with pikepdf.new() as document:
        page = document.add_blank_page(page_size=size)
        page.contents_add(content)
        if unit is not None:
            page.obj.UserUnit = unit
        document.save(path, **save)
    return path.read_bytes()


@pytest.mark.parametrize("unit", [1, 10, 72, 0.5])
@pytest.mark.parametrize("hidden", [False, True])
def test_a_page_has_the_same_pixels_in_any_unit(pages, tmp_path, unit, hidden):
    streams = pikepdf.ObjectStreamMode.generate if hidden else pikepdf.ObjectStreamMode.disable
    data = pdf(tmp_path / "a", (596 / unit, 842 / unit), unit=unit, object_stream_mode=streams)
    (page,) = pages(data)
    assert page.pixels.shape == pytest.approx((1684, 1192, 3), abs=1)


@pytest.mark.parametrize("unit", [0, -3, pikepdf.Name("/Large"), pikepdf.Array([10])])
def test_a_unit_that_is_none_counts_as_a_point(pages, tmp_path, unit):
    (page,) = pages(pdf(tmp_path / "a", (596, 842), unit=unit))
    assert page.pixels.shape == (1684, 1192, 3)


def scan(path: Path, points: tuple[float, float], pixels: tuple[int, int], strips: int, in_a_form: bool) -> bytes:
    """A page of grey pictures below each other, that fill it."""
    with pikepdf.new() as document:
        page = document.add_blank_page(page_size=points)
        high = pixels[1] // strips
        content = []
        for number in range(strips):
            picture = pikepdf.Stream(document, bytes([number]) * (pixels[0] * high))
            picture.Type, picture.Subtype = pikepdf.Name.XObject, pikepdf.Name.Image
            picture.Width, picture.Height, picture.BitsPerComponent = pixels[0], high, 8
            picture.ColorSpace = pikepdf.Name.DeviceGray
            page.add_resource(picture, pikepdf.Name.XObject, pikepdf.Name(f"/P{number}"))
            place = points[0], points[1] / strips, points[1] / strips * number
            content.append(b"q %f 0 0 %f 0 %f cm /P%d Do Q" % (*place, number))
        if in_a_form:
            form = pikepdf.Stream(document, b"\n".join(content))
            form.Type, form.Subtype = pikepdf.Name.XObject, pikepdf.Name.Form
            form.BBox, form.Resources = pikepdf.Array([0, 0, *points]), page.obj.Resources
            page.obj.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(Form=form))
            content = [b"/Form Do"]
        page.contents_add(b"\n".join(content))
        document.save(path)
    return path.read_bytes()


SCANS = [
    ((144, 204), (1240, 1754), 1240),
    ((595, 842), (2480, 3504), 2480),
    ((595, 842), (400, 560), 1190),
]
LARGEST = (595, 842), (9920, 14016), 2522  # within the bound for scans
MADE = [(1, False), (8, False), (1, True)]


@pytest.mark.parametrize(
    ("points", "pixels", "expected", "strips", "in_a_form"),
    [
        *((*scan, *made) for scan in SCANS for made in MADE),
        (*LARGEST, *MADE[0]),
        *(pytest.param(*LARGEST, *made, marks=pytest.mark.long) for made in MADE[1:]),
    ],
)
def test_a_scan_is_rendered_as_finely_as_it_was_scanned(pages, tmp_path, points, pixels, expected, strips, in_a_form):
    (page,) = pages(scan(tmp_path / "a", points, pixels, strips, in_a_form))
    assert page.pixels.shape[1] == pytest.approx(expected, abs=10)


def test_a_small_picture_on_a_page_changes_nothing(pages, tmp_path):
    scan(tmp_path / "a", (40, 40), (2000, 2000), 1, False)
    with pikepdf.open(tmp_path / "a") as pdf_file:
        pdf_file.pages[0].obj.MediaBox = pikepdf.Array([0, 0, 596, 842])
        pdf_file.save(tmp_path / "b")
    (page,) = pages((tmp_path / "b").read_bytes())
    assert page.pixels.shape == (1684, 1192, 3)


def test_files_that_a_pdf_carries_are_told(pages, tmp_path):
    with pikepdf.new() as document:
        for _ in range(2):
            document.add_blank_page(page_size=(596, 842))
        document.attachments["a.pdf"] = b"%PDF-"
        document.save(tmp_path / "a")
    first, second = pages((tmp_path / "a").read_bytes())
    (note,) = first.notes
    assert note["kind"] == "attachments" and "a file" in note["message"] and not second.notes


def test_pdfs_that_pdfium_refuses_are_written_anew(pages, tmp_path, monkeypatch):
    """It opens most damaged files itself, so that it must refuse here."""
    import pypdfium2

    data, opened = pdf(tmp_path / "a", (596, 842)), pypdfium2.PdfDocument

    def refuse_files(source, *args, **options):
        if isinstance(source, bytes):
            return opened(source, *args, **options)
        raise pypdfium2.PdfiumError("data format error")

    monkeypatch.setattr(pypdfium2, "PdfDocument", refuse_files)
    (page,) = pages(data)
    assert page.pixels.shape == (1684, 1192, 3) and [one["kind"] for one in page.notes] == ["cut_short"]


def test_a_damaged_pdf_after_an_encrypted_one_is_not_called_encrypted(pages, tmp_path):
    locked = pdf(tmp_path / "a", (596, 842), encryption=pikepdf.Encryption(owner="one", user="two"))
    for data, reason in ((locked, "is encrypted"), (b"%PDF-1.7\n/Encrypt nothing else", "is damaged")):
        with pytest.raises(InvalidDocument, match=reason):
            pages(data)


@pytest.mark.parametrize(
    "encryption",
    ["/Filter /Adobe.PubSec /SubFilter /adbe.pkcs7.s5 /V 4", "/Filter /EBX_HANDLER", "/Filter /Standard /V 9 /R 9"],
)
def test_a_pdf_that_is_protected_otherwise_is_not_called_damaged(pages, encryption):
    with pytest.raises(InvalidDocument, match="the PDF is protected in a way that is not read here"):
        pages(samples.pdf_bytes((596, 842), trailer=f"/Encrypt << {encryption} /Length 128 >>"))


@pytest.mark.parametrize("height", [16_669, 17_026])
def test_a_long_page_has_no_side_that_is_longer_than_allowed(pages, height):
    (page,) = pages(samples.pdf_bytes((50, height)))
    assert LONGEST_SIDE - 1 <= page.pixels.shape[0] <= LONGEST_SIDE
