# SPDX-License-Identifier: Apache-2.0
"""Image files as arrays, and back as PNG."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from tool_errors import UsageError
from upright import upright


def read(path: Path) -> np.ndarray:
    """[height, width, 3] uint8, upright, transparency on white ground. Raises UsageError for what is no image."""
    try:
        with Image.open(path) as file:
            file.load()
            image: Image.Image = upright(file)
            if image.mode.startswith("I"):  # of 16 bits, which Pillow's `convert` cuts to white
                grey = np.asarray(image).clip(0, 65535).astype(np.uint32)
                image = Image.fromarray(((grey + 128) // 257 if grey.max() > 255 else grey).astype(np.uint8))
            if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
                image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
            return np.asarray(image.convert("RGB"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except UnidentifiedImageError:
        pdf = path.is_file() and path.read_bytes()[:5] == b"%PDF-"
        cure = (
            "is a PDF; scripts/parse_folder.py and scripts/run_demo.sh read those"
            if pdf
            else "is no image that is known"
        )
        raise UsageError(f"{path}: {cure}") from None
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise UsageError(f"{path}: cannot be read ({error})") from None


def doubled(image: np.ndarray) -> np.ndarray:
    """A small page as PaddleX 3.7.2 shows it to a model that looks for places: twice as wide and as high where both
    sides are below 1500 pixels."""
    height, width, _ = image.shape
    if max(height, width) >= 1500:
        return image
    return np.asarray(Image.fromarray(image).resize((2 * width, 2 * height), Image.Resampling.LANCZOS))


def png(image: np.ndarray) -> bytes:
    """Losslessly, so that whoever decodes it has the same pixels."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG")
    return buffer.getvalue()
