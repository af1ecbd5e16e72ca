# SPDX-License-Identifier: Apache-2.0
"""A chat request as PaddleOCR's client sends it, with any image and any text."""

from __future__ import annotations

import base64
import io
from typing import Any

import httpx
from PIL import Image

MODEL = "PaddleOCR-VL-0.9B"


def encode(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    """The image as a file's bytes."""
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


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
