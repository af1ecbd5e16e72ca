# SPDX-License-Identifier: Apache-2.0
"""The child that decodes one video: `python -m vlm_models.video.reader BOUNDS_AS_JSON`, the file on stdin.

On stdout a line of JSON, then the chosen frames as RGB bytes. What it refuses is an `error` in that line. A process of
its own, with bounds of memory and processor time, which reaches no file, network or other process: FFmpeg reads what
strangers send, in C.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np

import mp4
from bounded_child import bound, bound_cpu, confine, end_with_parent
from isolation import isolate

from .bounds import VideoBounds

MATROSKA = b"\x1aE\xdf\xa3"  # and WebM
PAIR = 2  # frames that share a token
LEAST_FRAMES, MOST_FRAMES = 4, 768
MEMORY_BYTES = 4 << 30  # address space, of which OpenCV and its libraries reserve a part


class BadVideo(Exception):
    """Why a video is not decoded."""


def main() -> int:
    bounds = VideoBounds(**json.loads(sys.argv[1]))
    bound(resource.RLIMIT_AS, MEMORY_BYTES, final=True)
    bound_cpu(bounds.patience)
    confine(oom_score=1000)
    isolate([Path(__file__).parents[1]])
    end_with_parent(os.getppid())
    os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"] = "threads;1"
    os.environ["OPENCV_LOG_LEVEL"] = "SILENT"
    output = sys.stdout.buffer
    try:
        frames, facts = read(sys.stdin.buffer.read(), bounds)
    except (BadVideo, MemoryError) as error:
        output.write(json.dumps({"error": str(error) or "it takes too much memory"}).encode() + b"\n")
        return 0
    output.write(json.dumps({**facts, "shape": frames.shape}).encode() + b"\n")
    output.write(frames.data)
    return 0


def read(data: bytes, bounds: VideoBounds, counted: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
    """The chosen frames [frames, height, width, 3] uint8, and what vLLM calls the video's metadata. Raises BadVideo.

    ``counted``: frames of a file that was read to its end. Matroska does not say how many it has, and OpenCV takes its
    length for it: there may be none, or a sound that is longer than the picture. Of MP4 it counts frames too that the
    file hides.
    """
    import cv2

    cv2.setNumThreads(1)
    file = os.memfd_create("video")
    with open(file, "wb", closefd=False) as stream:
        stream.write(data)
    video = cv2.VideoCapture(f"/proc/self/fd/{file}", cv2.CAP_FFMPEG)
    if not video.isOpened():
        raise BadVideo("it cannot be decoded: it is cut off or damaged, or of a kind that is not known")
    told, fps = int(video.get(cv2.CAP_PROP_FRAME_COUNT)), video.get(cv2.CAP_PROP_FPS)
    total = told if counted is None else counted
    may_count = counted is None and data.startswith(MATROSKA)
    if may_count and total <= 0 and 0 < fps <= 1000:
        most = int(bounds.seconds * fps) + 1
        return read(data, bounds, next((number for number in range(most) if not video.grab()), most))
    if not (0 < total < 1 << 31 and 0 < fps <= 1000):
        raise BadVideo(f"it has {total} frames and {fps:g} frames per second; expected both above 0")
    if total / fps > bounds.seconds:
        raise BadVideo(f"it is {total / fps:.1f} s long; expected at most {bounds.seconds} s")
    width, height = (int(video.get(key)) for key in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT))
    fitting = int(bounds.megapixels * 1_000_000) // max(1, width * height)
    chosen = frame_indices(total, fps, bounds.fps, min(bounds.frames, fitting))
    if width * height * len(chosen) > bounds.megapixels * 1_000_000:
        raise BadVideo(
            f"{len(chosen)} frames of {width} x {height} are more than {bounds.megapixels:g} million pixels; send a "
            "smaller one"
        )
    frames = np.empty((len(chosen), height, width, 3), np.uint8)
    wanted = iter(enumerate(chosen))
    place, number = next(wanted)
    for index in range(chosen[-1] + 1):
        if not video.grab():
            if may_count or (counted is None and mp4.hides_others(data, index, fps)):
                return read(data, bounds, index)
            raise BadVideo(f"its frame {index} of {total} cannot be read: it is cut off or damaged")
        if index == number:
            there, frame = video.retrieve()
            if not there or frame.shape != (height, width, 3):
                raise BadVideo(f"its frame {index} of {total} cannot be decoded: it is cut off or damaged")
            cv2.cvtColor(frame, cv2.COLOR_BGR2RGB, dst=frames[place])
            place, number = next(wanted, (place, -1))
    facts = {"total_num_frames": total, "fps": fps, "duration": total / fps, "frames_indices": chosen}
    return frames, {**facts, "video_backend": "opencv", "do_sample_frames": False}


def frame_indices(total: int, video_fps: float, fps: float, most: int = MOST_FRAMES) -> list[int]:
    """Numbers of the frames that the model sees among ``total``, evenly spread, an even number of them where that is
    possible: as transformers' own Qwen2VLVideoProcessor.sample_frames chooses them.

    ``video_fps`` are the file's frames per second, ``fps`` the wanted ones.
    """
    if total < PAIR:
        return list(range(total))
    most = min(most, MOST_FRAMES, total) // PAIR * PAIR
    count = min(max(total / video_fps * fps, LEAST_FRAMES), most) // PAIR * PAIR
    step = total / max(count, PAIR)
    # Through float32, as the reference's torch.arange is.
    return (np.arange(math.ceil(total / step)) * step).astype(np.float32).astype(int).tolist()


if __name__ == "__main__":
    sys.exit(main())
