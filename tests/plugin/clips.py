# SPDX-License-Identifier: Apache-2.0
"""Short videos whose frames tell their own numbers."""

from __future__ import annotations

import struct
from pathlib import Path

import cv2
import numpy as np


def frame(number: int, width: int, height: int) -> np.ndarray:
    """[height, width, 3] uint8 RGB: the number in 16 black or red stripes, the lowest bit left."""
    stripes = [255 * (number >> bit & 1) for bit in range(16)]
    picture = np.zeros((height, width, 3), np.uint8)
    picture[..., 0] = np.asarray(stripes, np.uint8)[np.arange(width) * 16 // width]
    return picture


def number_of(picture: np.ndarray) -> int:
    """The number that a frame tells, in red."""
    width = picture.shape[1]
    middles = (np.arange(16) * 2 + 1) * width // 32
    return sum(int(picture[picture.shape[0] // 2, x, 0] > 127) << bit for bit, x in enumerate(middles))


def trimmed(file: bytes, first: int, frames: int, fps: float = 25) -> bytes:
    """An MP4 of ``clip`` that shows ``frames`` frames from ``first`` on and hides the others, by its edit list."""
    edit = file.index(b"elst") + 12  # behind the kind, the version and the number of entries
    ticks = struct.unpack_from(">I", file, file.index(b"mdhd") + 16)[0]  # of a second
    return file[:edit] + struct.pack(">Ii", round(1000 * frames / fps), round(ticks * first / fps)) + file[edit + 8 :]


def head_first(file: bytes) -> bytes:
    """An MP4 of ``clip`` with its head before its frames, as on web pages: cut off, it can still be opened."""
    at = file.index(b"mdat") - 4
    end = at + struct.unpack_from(">I", file, at)[0]
    head = bytearray(file[end:])
    chunks = head.index(b"stco") + 8
    form = f">{struct.unpack_from('>I', head, chunks)[0]}I"
    places = struct.unpack_from(form, head, chunks + 4)
    struct.pack_into(form, head, chunks + 4, *(place + len(head) for place in places))
    return file[:at] + bytes(head) + file[at:end]


def clip(
    folder: Path, frames: int = 50, fps: float = 25, width: int = 320, height: int = 64, kind: str = "mp4"
) -> bytes:
    """A video file's bytes."""
    codec = {"mp4": "mp4v", "avi": "MJPG", "mkv": "MJPG"}[kind]
    file = folder / f"clip.{kind}"
    writer = cv2.VideoWriter(str(file), cv2.VideoWriter.fourcc(*codec), fps, (width, height))
    assert writer.isOpened()
    for number in range(frames):
        writer.write(cv2.cvtColor(frame(number, width, height), cv2.COLOR_RGB2BGR))
    writer.release()
    return file.read_bytes()
