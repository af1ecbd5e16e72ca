# SPDX-License-Identifier: Apache-2.0
"""What parser and layout server send each other: arrays, as one line of JSON that describes them and then their bytes.

A page's image is `uint8` where that loses nothing: 1.9 MB for 800 x 800, a quarter of its float32.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import numpy as np

MODEL_HEADER = "Layout-Model"  # the checksum of the model's files that the client wants
CONTENT_TYPE = "application/octet-stream"
PATH = "/v1/layout"
ELEMENTS = ("uint8", "int32", "int64", "float32")
MOST_HEAD_BYTES = 4096
#: A pixel's value times this is the model's input, by PaddleX's own arithmetic (means 0, deviations 1).
STEP = np.float32(1 / 255)


class BadMessage(ValueError):
    """The bytes are no such message; the text says what is wrong."""


def pack(arrays: Mapping[str, np.ndarray]) -> bytes:
    head = [[name, str(value.dtype), list(value.shape)] for name, value in arrays.items()]
    parts = [np.ascontiguousarray(value).data.cast("B") if value.size else b"" for value in arrays.values()]
    return b"".join([json.dumps(head).encode(), b"\n", *parts])


def unpack(message: bytes) -> dict[str, np.ndarray]:
    """The arrays as views of the message. Raises BadMessage."""
    end = message.find(b"\n", 0, MOST_HEAD_BYTES)
    try:
        head = json.loads(message[: max(end, 0)])
        if not isinstance(head, list):
            raise TypeError
        described = [(str(name), str(element), tuple(shape)) for name, element, shape in head]
    except (ValueError, TypeError, RecursionError) as exc:
        raise BadMessage("the first line is not [[name, element, shape], ...] as JSON") from exc
    arrays, at = {}, end + 1
    for name, element, shape in described:
        if element not in ELEMENTS or not all(type(size) is int and 0 <= size < 2**31 for size in shape):
            raise BadMessage(f"{name} is {element} {list(shape)}; expected one of {', '.join(ELEMENTS)}, and sizes")
        size = math.prod(shape) * np.dtype(element).itemsize
        if at + size > len(message):
            raise BadMessage(f"{name} ends at byte {at + size} of {len(message)}")
        arrays[name] = np.frombuffer(message, element, math.prod(shape), at).reshape(shape)
        at += size
    if at != len(message):
        raise BadMessage(f"the message has {len(message)} bytes; its arrays end at {at}")
    return arrays


def small_image(image: np.ndarray) -> np.ndarray:
    """The image as `uint8` if every value is a pixel's; otherwise unchanged."""
    if image.dtype == np.uint8:
        return image
    scaled = image * np.float32(255) + np.float32(0.5)
    with np.errstate(invalid="ignore"):  # values outside 0..255 are not restored, which the comparison finds
        pixels = scaled.astype(np.uint8)
    return pixels if np.array_equal(full_image(pixels), image) else image


def full_image(image: np.ndarray) -> np.ndarray:
    """The inverse of ``small_image``."""
    return np.multiply(image, STEP, dtype=np.float32) if image.dtype == np.uint8 else image
