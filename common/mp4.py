# SPDX-License-Identifier: Apache-2.0
"""What an MP4 or QuickTime file says of its video (ISO/IEC 14496-12)."""

from __future__ import annotations

import struct
from collections.abc import Iterator


def boxes(data: bytes, *path: bytes) -> Iterator[bytes]:
    """What the boxes hold that lie one inside the other along ``path``, a box's kind each."""
    at = 0
    while at + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        head = 8
        if size == 1 and at + 16 <= len(data):
            size, head = struct.unpack_from(">Q", data, at + 8)[0], 16
        size = size or len(data) - at  # to the end
        if size < head:
            return
        if kind == path[0]:
            held = data[at + head : at + size]
            yield from boxes(held, *path[1:]) if path[1:] else (held,)
        at += size


def shown_s(data: bytes) -> float:
    """Seconds of its video that a file shows by its edit list; 0 where it has none. Whoever cuts a film without coding
    it anew leaves the frames up to the cut in the file, and hides them so."""
    try:
        (about,) = boxes(data, b"moov", b"mvhd")
        scale = struct.unpack_from(">I", about, 20 if about[0] else 12)[0]
        for track in boxes(data, b"moov", b"trak"):
            if next(boxes(track, b"mdia", b"hdlr"))[8:12] == b"vide":
                edits = next(boxes(track, b"edts", b"elst"))
                form = ">Qq4x" if edits[0] else ">Ii4x"  # how long, and from where; -1: nothing is shown
                return sum(length for length, start in struct.iter_unpack(form, edits[8:]) if start >= 0) / scale
    except (ValueError, IndexError, StopIteration, ZeroDivisionError, struct.error):  # damaged, or no such boxes
        pass
    return 0.0


def hides_others(data: bytes, frames: int, fps: float) -> bool:
    """Whether ``frames`` are all that a file's edit list shows, within two for the ends of both; its decoder counts
    the others too, and does not give them."""
    shown = shown_s(data)
    return shown > 0 and abs(frames - shown * fps) <= 2
