# SPDX-License-Identifier: Apache-2.0
"""Video files of chat requests, as the child that decodes them reads them: at most so many frames and pixels, or words.

FFmpeg is native code, so the search is led by our reader and by files that are built: boxes of MP4 and chunks of AVI
whose numbers are changed, doubled, or lost. FFmpeg may end its process: each is read in a child, as in the service
(vlm_models/video/decode.py), and an end by a signal counts as read. The OpenCV is the parser's (4.10); the VLM server's
is newer (4.13).
"""

from __future__ import annotations

import functools
import os
import resource
import signal
import struct
import tempfile
import traceback
from pathlib import Path

import cv2
import numpy as np

from tests.fuzz.choices import Choices
from tests.fuzz.targets.pdf import ENDS
from tests.fuzz.verdict import Broken
from vlm_models.video.bounds import VideoBounds
from vlm_models.video.decode import known_kind
from vlm_models.video.reader import BadVideo, read

BOUNDS = VideoBounds(fps=2, frames=2, seconds=2, megabytes=0.1, megapixels=0.002, patience=3)
FRAMES = 5
# Kind of file, codec, frames per second, width, height. The last two are beyond the bounds, of seconds and of pixels.
CLIPS = (
    *(("mp4", "mp4v", 5, 32, 16), ("mov", "jpeg", 5, 32, 16), ("avi", "MJPG", 5, 32, 16), ("mkv", "mp4v", 5, 32, 16)),
    *(("mov", "jpeg", 2, 32, 16), ("mp4", "mp4v", 5, 64, 32)),
)
# Of numbers in headers: sizes, counts, times; big-endian in MP4, little-endian in AVI.
NUMBERS = (0, 1, 2, 5, 255, 256, 32767, 65535, 90_000, 2**24, 2**31 - 1, 2**31, 2**32 - 1)


def target(data: bytes) -> None:
    file = data if known_kind(data) else made(Choices(data))
    if not known_kind(file):
        return
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        report = b""
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (BOUNDS.patience,) * 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # FFmpeg's words
            check(file)
        except (BadVideo, MemoryError):
            pass
        except BaseException:
            report = traceback.format_exc().encode()[-60_000:]
        finally:
            os.write(writing, report)
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        words = pipe.read()
    _, status = os.waitpid(child, 0)
    if words:
        raise Broken(words.decode(errors="replace").strip().splitlines()[-1][:120]) from RuntimeError(words.decode())
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) not in ENDS:
        raise Broken(f"a video ends its process with {signal.Signals(os.WTERMSIG(status)).name}")


def check(file: bytes) -> None:
    """Raise Broken for frames that are not what the contract says."""
    frames, facts = read(file, BOUNDS)
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[3] != 3 or not frames.size:
        raise Broken("frames are uint8 [frames, height, width, 3]")
    if not frames.flags.c_contiguous:
        raise Broken("frames lie in memory as they are written")
    if len(frames) > BOUNDS.frames or frames[..., 0].size > BOUNDS.megapixels * 1_000_000:
        raise Broken("frames are no more and no larger than the operator allows")
    chosen, total = facts["frames_indices"], facts["total_num_frames"]
    if len(chosen) != len(frames) or sorted(set(chosen)) != chosen or not 0 <= chosen[0] <= chosen[-1] < total:
        raise Broken("the chosen frames are some of the file's, in their order")
    if not 0 < facts["duration"] <= BOUNDS.seconds:
        raise Broken("a video is no longer than the operator allows")


def made(choices: Choices) -> bytes:
    """A small video whose bytes are changed in a few places."""
    file = bytearray(choices.one(clips()))
    for _ in range(choices.below(6)):
        # Headers stand in front in AVI and Matroska, and behind the pictures in MP4.
        at = choices.below(len(file)) if choices.chance(3) else min(choices.below(256), len(file) - 1)
        if choices.chance(2):
            at = len(file) - 1 - at
        kind = choices.below(5)
        if kind < 2:
            number = struct.pack("<I" if kind else ">I", choices.one(NUMBERS))
            file[at : at + 4] = number
        elif kind == 2:
            piece = choices.take(16)
            file[at : at + len(piece)] = piece
        elif kind == 3:
            end = at + 1 + choices.below(256)
            file[at:at] = file[at:end] * choices.one((1, 1, 2, 20))
        else:
            del file[at : at + 1 + choices.below(256)]
    return bytes(file)


@functools.cache
def clips() -> list[bytes]:
    """Files with moving stripes."""
    found = []
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir="/dev/shm") as folder:
        for kind, codec, fps, width, height in CLIPS:
            file = Path(folder) / f"clip.{kind}"
            writer = cv2.VideoWriter(str(file), cv2.VideoWriter.fourcc(*codec), fps, (width, height))
            if not writer.isOpened():
                raise OSError(f"this OpenCV writes no {kind} with {codec}")
            stripes = np.tile(np.arange(width, dtype=np.uint8)[None, :, None] * 4, (height, 1, 3))
            for number in range(FRAMES):
                writer.write(np.roll(stripes, number, 1))
            writer.release()
            found.append(file.read_bytes())
    return found


def seeds() -> list[bytes]:
    return [*clips(), *(bytes([number]) * 40 for number in range(1, 12))]
