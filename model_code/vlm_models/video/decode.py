# SPDX-License-Identifier: Apache-2.0
"""From what a `video_url` holds to frames: a video file, or JPEG frames one after another."""

from __future__ import annotations

import dataclasses
import json
import mmap
import subprocess
import sys
from typing import Any

import numpy as np

from bounded_child import environment

from ..images import decode_image, pixels_of
from .bounds import VideoBounds


class Clip(np.ndarray):
    """Frames [frames, height, width, 3] uint8 RGB whose memory can be freed while others hold them on."""

    memory: mmap.mmap

    @classmethod
    def of(cls, frames: np.ndarray) -> Clip:
        """A copy of frames."""
        memory = mmap.mmap(-1, frames.nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        clip = cls(frames.shape, np.uint8, buffer=memory)
        clip[...] = frames
        clip.memory = memory
        return clip

    def close(self) -> None:
        """Whoever looks at the frames from now on sees black ones."""
        self.memory.madvise(mmap.MADV_DONTNEED)


Video = tuple[Clip, dict[str, Any]]


def known_kind(data: bytes) -> bool:
    """Whether a file is MP4 or QuickTime, Matroska or WebM, or AVI. FFmpeg knows playlists too, which name other files
    and addresses."""
    return data[4:8] == b"ftyp" or data[:4] == b"\x1aE\xdf\xa3" or (data[:4] == b"RIFF" and data[8:12] == b"AVI ")


def decode_video(data: bytes, bounds: VideoBounds) -> Video:
    """The chosen frames [frames, height, width, 3] uint8 RGB of a video file, and its metadata.

    Raises ValueError that names what is wrong with it.
    """
    if len(data) > bounds.megabytes * 1_000_000:
        raise ValueError(f"the video has {len(data)} bytes; expected at most {bounds.megabytes} million")
    if not known_kind(data):
        raise ValueError("the video cannot be decoded: its format is not known (send MP4, QuickTime, WebM, AVI or MKV)")
    words = [sys.executable, "-m", "vlm_models.video.reader", json.dumps(dataclasses.asdict(bounds))]
    kept = environment(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    try:
        done = subprocess.run(
            words, input=data, capture_output=True, timeout=2 * bounds.patience, check=False, env=kept
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"the video was not decoded within {2 * bounds.patience} s; send a shorter one") from None
    line = done.stdout[: done.stdout.find(b"\n") + 1]
    if done.returncode or not line:
        raise ValueError("the video cannot be decoded: its decoder ended early, so it is damaged, or takes too much")
    facts = json.loads(line)
    if "error" in facts:
        raise ValueError(f"the video is refused: {facts['error']}")
    frames = np.frombuffer(done.stdout, np.uint8, offset=len(line))
    return Clip.of(frames.reshape(facts.pop("shape"))), facts


def decode_frames(files: list[bytes], bounds: VideoBounds) -> Video:
    """Images of one size as the frames of a video; all of them are seen. Raises ValueError."""
    if not 0 < len(files) <= bounds.frames:
        raise ValueError(f"the video has {len(files)} frames; expected 1 to {bounds.frames}")
    if sum(map(pixels_of, files)) > bounds.megapixels * 1_000_000:
        raise ValueError(f"the video's frames have more than {bounds.megapixels:g} million pixels; send smaller ones")
    frames = [np.asarray(decode_image(file)) for file in files]
    for number, frame in enumerate(frames):
        if frame.shape != frames[0].shape:
            shape, first = (f"{one.shape[1]} x {one.shape[0]}" for one in (frame, frames[0]))
            raise ValueError(f"the video's frame {number + 1} has {shape} pixels, its first {first}; expected one size")
    return Clip.of(np.stack(frames)), {}
