# SPDX-License-Identifier: Apache-2.0
"""Reading images: every mode of every supported format becomes a BGR array on white ground."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from docparser.errors import DocumentTooLarge, InvalidDocument
from docparser.limits import LONGEST_SIDE, Limits
from docparser.source import SUPPORTED, Document

# The limit is checked here, against the operator's setting and with a message; Pillow's own would only be in the way.
Image.MAX_IMAGE_PIXELS = None

# What Pillow and its decoders raise for damaged files; most of it is not documented.
DECODE_ERRORS = (OSError, ValueError, SyntaxError, EOFError, IndexError, KeyError, TypeError, OverflowError)


@contextlib.contextmanager
def _opened(document: Document) -> Iterator[Image.Image]:
    formats = ["JPEG", "MPO"] if document.format == "JPEG" else [document.format]
    try:
        image = Image.open(document.path, formats=formats)
    except UnidentifiedImageError:
        raise InvalidDocument(
            f"file: begins like a {document.format} but cannot be read as one; expected {SUPPORTED}"
        ) from None
    except DECODE_ERRORS as exc:
        raise InvalidDocument(f"file: the {document.format} is damaged ({exc})") from None
    with image:
        yield image


def count_frames(document: Document, limits: Limits) -> int:
    """Pages of a TIFF; 1 for any other format. Checks the first page's size, from the header alone.

    Raises InvalidDocument, DocumentTooLarge.
    """
    with _opened(document) as image:
        _check_size(image, 0, limits)
        if document.format != "TIFF":
            return 1
        try:
            return image.n_frames
        except DECODE_ERRORS as exc:
            raise InvalidDocument(f"file: the TIFF is damaged ({exc})") from None


def read_frame(document: Document, index: int, limits: Limits) -> np.ndarray:
    """Page ``index`` (from 0) as uint8 ``[height, width, 3]``, blue first, turned upright as EXIF says.

    Raises InvalidDocument for a damaged or truncated file, DocumentTooLarge before decoding.
    """
    with _opened(document) as image:
        try:
            image.seek(index)
            _check_size(image, index, limits)
            image.load()
            upright = ImageOps.exif_transpose(image)
            rgb = np.asarray(_to_rgb(upright))
        except MemoryError:
            raise DocumentTooLarge(f"file: page {index + 1} does not fit into memory") from None
        except DECODE_ERRORS as exc:
            raise InvalidDocument(
                f"file: page {index + 1} of the {document.format} is truncated or damaged ({exc})"
            ) from None
    return np.ascontiguousarray(rgb[:, :, ::-1])


def _check_size(image: Image.Image, index: int, limits: Limits) -> None:
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


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return _from_wide(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        ground = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(ground, image).convert("RGB")
    return image.convert("RGB")


def _from_wide(image: Image.Image) -> Image.Image:
    """16-bit, 32-bit and float grey: Pillow would clip at 255. 16 bits are the full range unless values exceed it."""
    grey = np.nan_to_num(np.asarray(image).astype(np.float64), posinf=0.0, neginf=0.0)
    peak = float(grey.max(initial=0.0))
    full = (1.0 if peak <= 1.0 else max(peak, 255.0)) if image.mode == "F" else max(peak, 65535.0)
    return Image.fromarray(np.clip(grey * (255.0 / full), 0, 255).astype(np.uint8)).convert("RGB")
