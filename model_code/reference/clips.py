# SPDX-License-Identifier: Apache-2.0
"""Video files as the frames that a model sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tool_errors import UsageError

MAX_PIXELS = 200_000_000  # of the chosen frames together: 0.6 GB


def read(path: Path, fps: float, max_frames: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Frames [frames, height, width, 3] uint8 that Qwen2-VL's processor chooses, and facts on the file.

    The facts are ``total`` frames, ``fps``, and the numbers of the ``chosen`` frames. Raises UsageError.
    """
    import cv2
    from transformers import Qwen2VLVideoProcessor
    from transformers.video_utils import VideoMetadata

    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    video = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    total, rate = int(video.get(cv2.CAP_PROP_FRAME_COUNT)), video.get(cv2.CAP_PROP_FPS)
    if not video.isOpened() or total < 2 or rate <= 0:
        raise UsageError(f"{path}: is no video that can be read, or has fewer than two frames")
    about = VideoMetadata(total_num_frames=total, fps=rate, duration=total / rate)
    chosen = Qwen2VLVideoProcessor().sample_frames(about, fps=fps, max_frames=max_frames).tolist()
    size = video.get(cv2.CAP_PROP_FRAME_WIDTH) * video.get(cv2.CAP_PROP_FRAME_HEIGHT)
    if size * len(chosen) > MAX_PIXELS:
        raise UsageError(
            f"{path}: {len(chosen)} frames have more than {MAX_PIXELS} pixels together; give fewer --frames"
        )
    wanted, frames = set(chosen), []
    for index in range(chosen[-1] + 1):
        if not video.grab():
            raise UsageError(f"{path}: frame {index} of {total} cannot be read; the file is cut off or damaged")
        if index in wanted:
            frames.append(cv2.cvtColor(video.retrieve()[1], cv2.COLOR_BGR2RGB))
    return np.stack(frames), {"total": total, "fps": rate, "chosen": chosen}
