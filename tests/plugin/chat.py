# SPDX-License-Identifier: Apache-2.0
"""A chat request as PaddleOCR's client sends it, with any image and any text."""

from __future__ import annotations

import base64
import io
from typing import Any

import httpx
from PIL import Image, ImageOps

MODEL = "PaddleOCR-VL-0.9B"


def encode(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    """The image as a file's bytes."""
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def lying(form: str, orientation: int, size: tuple[int, int] = (40, 20)) -> tuple[bytes, Image.Image]:
    """A picture's file that says how to turn it upright, in an EXIF with an odd tag; and the picture upright."""
    exif = Image.Exif()
    exif[0x0112], exif[0x0110] = orientation, "a camera"
    image = Image.linear_gradient("L").resize(size).convert("RGB")
    image.putpixel((0, 0), (255, 0, 0))
    plain = Image.open(io.BytesIO(encode(image, "PNG", exif=exif)))
    # The camera's tag as the resolution's, which is no text: Pillow's exif_transpose raises TypeError.
    odd = exif.tobytes().replace(b"\x01\x10\x00\x02", b"\x01\x1a\x00\x02")
    return encode(image, form, exif=odd, lossless=True), ImageOps.exif_transpose(plain)


def image_part(data: bytes | str, kind: str = "png") -> dict[str, Any]:
    """An image as part of a message: bytes become a data URL, a string is taken as the URL."""
    url = data if isinstance(data, str) else f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def text_part(text: str = "OCR:") -> dict[str, Any]:
    return {"type": "text", "text": text}


def body(*parts: dict[str, Any] | str, **options: Any) -> dict[str, Any]:
    """Body of a request with one user message; ``options`` override the client's defaults."""
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": list(parts)}],
        "temperature": 0,
        "max_tokens": 8,
        "mm_processor_kwargs": {"min_pixels": 112896, "max_pixels": 1003520},
        **options,
    }


def send(base: str, document: Any, path: str = "/v1/chat/completions") -> httpx.Response:
    return httpx.post(base + path, json=document, timeout=300)
