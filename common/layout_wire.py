# SPDX-License-Identifier: Apache-2.0
"""The messages between parser and layout server: one line of JSON that describes arrays, then their bytes.

A page's image is `uint8` where that is lossless: 1.9 MB for 800 x 800, a quarter of float32. The masks that
PP-DocLayoutV3 answers, 300 of 200 x 200 whole numbers that are 0 or 1, are one bit each: 1.5 MB instead of 48.
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
BITS = {"int32 bits": "int32", "int64 bits": "int64"}  # of masks, which answers have
MOST_HEAD_BYTES = 4096
#: A pixel's value times this is the model's input, by PaddleX's own arithmetic (means 0, deviations 1).
STEP = np.float32(1 / 255)


class BadMessage(ValueError):
    """The bytes are no such message; the text says what is wrong."""


def pack(arrays: Mapping[str, np.ndarray]) -> bytes:
    head, parts = [], []
    for name, value in arrays.items():
        bits = f"{value.dtype} bits"
        element = bits if is_mask(value) and bits in BITS else str(value.dtype)
        head.append([name, element, list(value.shape)])
        whole = np.packbits(value.astype(bool)) if element in BITS else np.ascontiguousarray(value)
        parts.append(whole.data.cast("B") if whole.size else b"")
    return b"".join([json.dumps(head).encode(), b"\n", *parts])


def is_mask(value: np.ndarray) -> bool:
    return value.ndim == 3 and value.dtype.kind == "i" and value.size > 0 and 0 <= value.min() and value.max() <= 1


def unpack(message: bytes, *, masks: bool = False) -> dict[str, np.ndarray]:
    """The arrays as views of the message. With ``masks`` it may hold masks, which take up to 64 times its bytes. Raises
    BadMessage."""
    known = (*ELEMENTS, *BITS) if masks else ELEMENTS
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
        if element not in known or not all(type(size) is int and 0 <= size < 2**31 for size in shape):
            raise BadMessage(f"{name} is {element} {list(shape)}; expected one of {', '.join(known)}, and sizes")
        count = math.prod(shape)
        size = -(-count // 8) if element in BITS else count * np.dtype(element).itemsize
        if at + size > len(message):
            raise BadMessage(f"{name} ends at byte {at + size} of {len(message)}")
        if element in BITS:
            bits = np.unpackbits(np.frombuffer(message, np.uint8, size, at), count=count)
            arrays[name] = bits.reshape(shape).astype(BITS[element])
        else:
            arrays[name] = np.frombuffer(message, element, count, at).reshape(shape)
        at += size
    if at != len(message):
        raise BadMessage(f"the message has {len(message)} bytes; its arrays end at {at}")
    return arrays


def full_image(image: np.ndarray) -> np.ndarray:
    """The image as an engine takes it: bytes become the numbers that PaddleX makes of them."""
    return np.multiply(image, STEP, dtype=np.float32) if image.dtype == np.uint8 else image
