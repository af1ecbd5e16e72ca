# SPDX-License-Identifier: Apache-2.0
"""From the bytes of an image file to 8-bit RGB: PNG, JPEG, TIFF, BMP and WebP, told by their signatures."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

import numpy as np
from PIL import Image, UnidentifiedImageError

from file_types import format_of
from upright import upright

IMAGES = ("PNG", "JPEG", "TIFF", "BMP", "WEBP")  # Pillow's names of the formats that clients send
# Above this an image is refused before it is unpacked (an A0 page at 300 dpi has 139 million).
MAX_SOURCE_PIXELS = 150_000_000

_SIXTEEN_BIT = ("I;16", "I;16L", "I;16B", "I;16N")
# Pixels that are converted at a time: more would only take memory.
_BAND = 1 << 20


def pixels_of(data: bytes) -> int:
    """How many pixels an image file unpacks to, by its header. Raises ValueError as ``decode_image`` does."""
    with named_errors():
        image = opened(data)
        return image.width * image.height


def decode_image(data: bytes) -> Image.Image:
    """Decode the first frame of an image file into an RGB image, upright.

    Raises:
        ValueError: empty, of another format, cut off or damaged, or of more than ``MAX_SOURCE_PIXELS`` pixels; the
            message says which.
    """
    with named_errors():
        image = opened(data)
        image.load()
        return to_rgb(upright(image))


def opened(data: bytes) -> Image.Image:
    """The image, of which nothing but the header has been read."""
    if not data:
        raise ValueError("the image is empty (0 bytes)")
    form = format_of(data)
    if form not in IMAGES:
        raise UnidentifiedImageError
    image = Image.open(io.BytesIO(data), formats=[form])
    if image.width * image.height > MAX_SOURCE_PIXELS:
        raise ValueError(
            f"the image has {image.width} x {image.height} pixels, more than {MAX_SOURCE_PIXELS}; send a smaller one"
        )
    return image


@contextlib.contextmanager
def named_errors() -> Iterator[None]:
    """What PIL raises, as ValueError."""
    try:
        yield
    except UnidentifiedImageError as error:
        raise ValueError(
            f"the image cannot be decoded: its format is not known (send {', '.join(IMAGES[:-1])} or {IMAGES[-1]})"
        ) from error
    except Image.DecompressionBombError as error:
        raise ValueError(f"the image is refused: {error}") from error
    except (OSError, SyntaxError, EOFError, IndexError, MemoryError, OverflowError) as error:
        # PIL's decoders raise all of these for files that are cut off or damaged.
        raise ValueError(f"the image cannot be decoded, the file is cut off or damaged: {error}") from error


def to_rgb(image: Image.Image) -> Image.Image:
    """Convert to RGB as a reader sees it: transparency over white, 16-bit grey scaled to 8 bits.

    PIL's own ``convert`` drops alpha, which turns transparent paper black, and clips 16-bit grey to white.

    Raises:
        ValueError: for floating-point images, whose range is not known.
    """
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode == "F":
        raise ValueError("the image holds floating-point samples; send 8- or 16-bit ones")
    # What PIL makes of some 16-bit PNG and TIFF files; not all of them use more than 8.
    wide = image.mode in _SIXTEEN_BIT or (image.mode == "I" and brightest(image) > 255)
    rgb = Image.new("RGB", image.size)
    rows = max(1, _BAND // max(1, image.width))
    for top in range(0, image.height, rows):
        band = image.crop((0, top, image.width, min(top + rows, image.height)))
        rgb.paste(_band_to_rgb(band, wide=wide), (0, top))
    return rgb


def _band_to_rgb(image: Image.Image, *, wide: bool) -> Image.Image:
    """``wide``: the samples have 16 bits."""
    if image.mode in (*_SIXTEEN_BIT, "I"):
        grey = np.clip(np.asarray(image), 0, 65535).astype(np.uint32)
        samples = (grey + 128) // 257 if wide else grey
        return Image.fromarray(samples.astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        layer = image.convert("RGBA")
        paper = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        return Image.alpha_composite(paper, layer).convert("RGB")
    return image.convert("RGB")


def brightest(image: Image.Image) -> int:
    """The largest sample of an image of one channel."""
    _, most = image.getextrema()
    assert not isinstance(most, tuple), "a pair for each channel, where there are several"
    return int(most)
