# SPDX-License-Identifier: Apache-2.0
"""How large each frame of a video may be: fewer pixels the more frames there are (Qwen2-VL's published vision_process).

128 to 768 blocks of 28 x 28 pixels a frame, and 24576 blocks for the whole video, of which two frames share a token.
"""

from __future__ import annotations

BLOCK = 28 * 28
LEAST, MOST = 128 * BLOCK, 768 * BLOCK
TOTAL_PIXELS = 24576 * BLOCK
FRAME_FACTOR = 2


def frame_pixels(frames: int, total: int = TOTAL_PIXELS) -> tuple[int, int]:
    """Least and most pixels of each of ``frames`` frames of one video."""
    share = total * FRAME_FACTOR // max(1, frames)
    return LEAST, max(min(MOST, share), int(LEAST * 1.05))
