# SPDX-License-Identifier: Apache-2.0
"""Which frames of a video the model sees: as transformers' own Qwen2VLVideoProcessor.sample_frames chooses them."""

from __future__ import annotations

import math

import numpy as np

PAIR = 2  # frames that share a token
LEAST_FRAMES, MOST_FRAMES = 4, 768


def frame_indices(total: int, video_fps: float, fps: float, most: int = MOST_FRAMES) -> list[int]:
    """Numbers of the chosen ones among ``total`` frames, evenly spread, an even number of them where that is possible.

    ``video_fps`` are the file's frames per second, ``fps`` the wanted ones.
    """
    if total < PAIR:
        return list(range(total))
    most = min(most, MOST_FRAMES, total) // PAIR * PAIR
    count = min(max(total / video_fps * fps, LEAST_FRAMES), most) // PAIR * PAIR
    step = total / max(count, PAIR)
    # Through float32, as the reference's torch.arange is.
    return (np.arange(math.ceil(total / step)) * step).astype(np.float32).astype(int).tolist()
