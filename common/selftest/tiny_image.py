# SPDX-License-Identifier: Apache-2.0
"""The smallest question that a VLM server can be asked: one token for a white image of 28 x 28 pixels."""

from __future__ import annotations

import uuid
from typing import Any

# As PNG.
TINY_PNG = "iVBORw0KGgoAAAANSUhEUgAAABwAAAAcAQAAAABaduI5AAAAEUlEQVR42mP4////B4bBQQAAE0xt7R3qn8IAAAAASUVORK5CYII="
# Of one block: HunyuanOCR's has 32 x 32 pixels, the others' 28 x 28. By the checkpoints' own bounds the image would be
# enlarged to 144 tokens and more, which take a CPU about a second, of every ten that the watchdog waits.
PIXELS = {"min_pixels": 28 * 28, "max_pixels": 32 * 32}


def tiny_request(model: str) -> dict[str, Any]:
    """The body of the chat completion. A server refuses one without an image before its engine sees it."""
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{TINY_PNG}"}}
    return {
        "model": model,
        "max_completion_tokens": 1,
        "temperature": 0,
        "mm_processor_kwargs": PIXELS,
        "messages": [{"role": "user", "content": [image, {"type": "text", "text": "OCR:"}]}],
    }


def tiny_request_id() -> str:
    return f"ready-{uuid.uuid4().hex[:12]}"
