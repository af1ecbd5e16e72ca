# SPDX-License-Identifier: Apache-2.0
"""Reading images: every mode of every supported format becomes a BGR array on white ground."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from docparser.documents.limits import LONGEST_SIDE, DocumentLimits
from docparser.documents.spool import OpenDocument
from docparser.errors import DocumentTooLarge, InvalidDocument
from file_types import SUPPORTED

# This module checks the operator's own limit, with a message that names the setting.
Image.MAX_IMAGE_PIXELS = None

STRIP_PIXELS = 4 << 20

# Pillow and its decoders raise these for damaged files; most of them are not documented.
DECODE_ERRORS = (OSError, ValueError, SyntaxError, EOFError, IndexError, KeyError, TypeError, OverflowError)


class _File(io.BufferedReader):
    """Takes memory for what is there. Python's own takes it for what is asked, and a damaged file may ask for
    gigabytes."""

    def __init__(self, file: int) -> None:
        super().__init__(io.FileIO(file, closefd=False))
        self._size = os.fstat(file).st_size
        self.seek(0)

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(self._size - self.tell(), 0)
        return super().read(left if size is None or size < 0 else min(size, left))


@contextlib.contextmanager
def _opened(document: OpenDocument) -> Iterator[Image.Image]:
    formats = ["JPEG", "MPO"] if document.format == "JPEG" else [document.format]
    with _File(document.file) as file:
        try:
            image = Image.open(file, formats=formats)
        except UnidentifiedImageError:
            raise InvalidDocument(
                f"file: begins like a {document.format} but cannot be read as one; expected {SUPPORTED}"
            ) from None
        except DECODE_ERRORS as exc:
            raise InvalidDocument(f"file: the {document.format} is damaged ({exc})") from None
        with image:
            yield image


def count_frames(document: OpenDocument, limits: DocumentLimits) -> int:
    """The number of pages of a TIFF, at most one more than are allowed; 1 for any other format. Checks the first page's
    size by its header.

    Raises InvalidDocument, DocumentTooLarge.
    """
    with _opened(document) as image:
        _check_size(image, 0, limits)
        if document.format != "TIFF":
            return 1
        pages = 1
        try:
            with contextlib.suppress(EOFError):
                while pages <= limits.max_pages:  # not `n_frames`, which follows a chain of any length
                    image.seek(pages)
                    pages += 1
            return pages
        except DECODE_ERRORS as exc:
            raise InvalidDocument(f"file: the TIFF is damaged ({exc})") from None


def read_frame(document: OpenDocument, index: int, limits: DocumentLimits) -> np.ndarray:
    """Page ``index`` (from 0) as uint8 ``[height, width, 3]``, blue first, turned upright as EXIF says.

    Raises InvalidDocument for a damaged or truncated file, DocumentTooLarge before decoding.
    """
    with _opened(document) as image:
        try:
            image.seek(index)
            _check_size(image, index, limits)
            image.load()
            return _to_bgr(ImageOps.exif_transpose(image))
        except DECODE_ERRORS as exc:
            raise InvalidDocument(
                f"file: page {index + 1} of the {document.format} is truncated or damaged ({exc})"
            ) from None


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


def _to_bgr(image: Image.Image) -> np.ndarray:
    """Uint8 ``[height, width, 3]``, in strips, because several copies of a large image in a wider mode are
    gigabytes."""
    is_wide = image.mode in ("I", "F") or image.mode.startswith("I;16")
    full = _full_range(image) if is_wide else 0.0
    pixels = np.empty((image.height, image.width, 3), np.uint8)
    for top, strip in _strips(image):
        rgb = _from_wide(strip, full) if is_wide else _to_rgb(strip)
        pixels[top : top + strip.height] = np.asarray(rgb)[:, :, ::-1]
    return pixels


def _strips(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    """The image in strips of whole rows, each with its first row."""
    rows = max(1, STRIP_PIXELS // image.width)
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.has_transparency_data:
        image = image.convert("RGBA")
        ground = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(ground, image).convert("RGB")
    return image.convert("RGB")


def _full_range(image: Image.Image) -> float:
    """The value of white in 16-bit, 32-bit and float grey: 16 bits, unless a value exceeds it."""
    peak = max(float(_grey(strip).max(initial=0.0)) for _, strip in _strips(image))
    return (1.0 if peak <= 1.0 else max(peak, 255.0)) if image.mode == "F" else max(peak, 65535.0)


def _from_wide(image: Image.Image, full: float) -> Image.Image:
    """Grey as RGB, where ``full`` is white; Pillow would clip at 255."""
    return Image.fromarray(np.clip(_grey(image) * (255.0 / full), 0, 255).astype(np.uint8)).convert("RGB")


def _grey(image: Image.Image) -> np.ndarray:
    return np.nan_to_num(np.asarray(image).astype(np.float64), posinf=0.0, neginf=0.0)
