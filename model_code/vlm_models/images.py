# SPDX-License-Identifier: Apache-2.0
"""From the bytes of an image file to 8-bit RGB, for every kind of image that PIL opens."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, UnidentifiedImageError

# Above this an image is refused before it is unpacked (an A0 page at 300 dpi has 139 million).
MAX_SOURCE_PIXELS = 150_000_000

_SIXTEEN_BIT = ("I;16", "I;16L", "I;16B", "I;16N")


def decode_image(data: bytes) -> Image.Image:
    """Decode the first frame of an image file into an RGB image.

    Raises:
        ValueError: empty, no image that PIL knows, cut off or damaged, or of more than
            ``MAX_SOURCE_PIXELS`` pixels; the message says which.
    """
    if not data:
        raise ValueError("the image is empty (0 bytes)")
    try:
        image = Image.open(io.BytesIO(data))
        if image.width * image.height > MAX_SOURCE_PIXELS:
            raise ValueError(
                f"the image has {image.width} x {image.height} pixels, more than {MAX_SOURCE_PIXELS}; "
                "send a smaller one"
            )
        image.load()
        return to_rgb(image)
    except UnidentifiedImageError as error:
        raise ValueError(
            "the image cannot be decoded: its format is not known (send PNG, JPEG, WebP, TIFF or BMP)"
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
    if image.mode == "RGB":
        return image
    if image.mode in _SIXTEEN_BIT:
        grey = (np.asarray(image).astype(np.uint32) + 128) // 257
        return Image.fromarray(grey.astype(np.uint8)).convert("RGB")
    if image.mode == "I":
        # What PIL makes of some 16-bit PNG and TIFF files.
        grey = np.clip(np.asarray(image), 0, 65535).astype(np.uint32)
        grey = (grey + 128) // 257 if grey.max(initial=0) > 255 else grey
        return Image.fromarray(grey.astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ValueError("the image holds floating-point samples; send 8- or 16-bit ones")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        layer = image.convert("RGBA")
        paper = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        return Image.alpha_composite(paper, layer).convert("RGB")
    return image.convert("RGB")
