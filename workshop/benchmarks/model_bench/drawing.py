# SPDX-License-Identifier: Apache-2.0
"""Images for benchmarks, by Python's standard library alone."""

from __future__ import annotations

import random
import struct
import zlib


def png(width: int, height: int, seed: int) -> bytes:
    """A grey image of strokes in lines, as PNG: enough like print to be compressed like it."""
    draw = random.Random(seed)
    blank = bytes([255]) * width
    rows = []
    for top in range(0, height, 11):
        stroke = bytearray(blank)
        x = 4
        while x < width - 12:
            length = draw.randint(2, 9)
            stroke[x : x + length] = bytes(length)
            x += length + draw.randint(2, 8)
        rows += [bytes(stroke) if top + 2 <= y < top + 8 else blank for y in range(top, min(top + 11, height))]

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    packed = zlib.compress(b"".join(b"\0" + row for row in rows), 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")
