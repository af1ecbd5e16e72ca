# SPDX-License-Identifier: Apache-2.0
"""Files of images and videos as arrays of pixels, and an image back as PNG."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

import mp4
from tool_errors import UsageError
from upright import upright

MAX_PIXELS = 200_000_000  # of a video's chosen frames together: 0.6 GB


def read_image(path: Path) -> np.ndarray:
    """[height, width, 3] uint8, upright, transparency on white ground. Raises UsageError for what is no image."""
    try:
        with Image.open(path) as file:
            file.load()
            image: Image.Image = upright(file)
            if image.mode.startswith("I"):  # of 16 bits, which Pillow's `convert` cuts to white
                grey = np.asarray(image).clip(0, 65535).astype(np.uint32)
                image = Image.fromarray(((grey + 128) // 257 if grey.max() > 255 else grey).astype(np.uint8))
            if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
                image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
            return np.asarray(image.convert("RGB"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except UnidentifiedImageError:
        pdf = path.is_file() and path.read_bytes()[:5] == b"%PDF-"
        cure = (
            "is a PDF; scripts/parse_folder.py and scripts/run_demo.sh read those"
            if pdf
            else "is no image that is known"
        )
        raise UsageError(f"{path}: {cure}") from None
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise UsageError(f"{path}: cannot be read ({error})") from None


def named(files: list[Path]) -> list[tuple[str, np.ndarray]]:
    """Images with their files' names. Raises UsageError."""
    return [(file.name, read_image(file)) for file in files]


def doubled(image: np.ndarray) -> np.ndarray:
    """A small page as PaddleX 3.7.2 shows it to a model that looks for places: twice as wide and as high where both
    sides are below 1500 pixels."""
    height, width, _ = image.shape
    if max(height, width) >= 1500:
        return image
    return np.asarray(Image.fromarray(image).resize((2 * width, 2 * height), Image.Resampling.LANCZOS))


def png(image: np.ndarray) -> bytes:
    """Losslessly, so that whoever decodes it has the same pixels."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG")
    return buffer.getvalue()


def read_video(
    path: Path, fps: float, max_frames: int, counted: int | None = None
) -> tuple[np.ndarray, dict[str, Any]]:
    """Frames [frames, height, width, 3] uint8 that Qwen2-VL's processor chooses, and facts on the file.

    The facts are ``total`` frames, ``fps``, and the numbers of the ``chosen`` frames. ``counted``: frames of an MP4
    that was read to its end, and hides others. Raises UsageError.
    """
    import cv2
    from transformers import Qwen2VLVideoProcessor
    from transformers.video_utils import VideoMetadata

    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    video = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    total, rate = counted or int(video.get(cv2.CAP_PROP_FRAME_COUNT)), video.get(cv2.CAP_PROP_FPS)
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
            if counted is None and mp4.hides_others(path.read_bytes(), index, rate):
                return read_video(path, fps, max_frames, index)
            raise UsageError(f"{path}: frame {index} of {total} cannot be read; the file is cut off or damaged")
        if index in wanted:
            frames.append(cv2.cvtColor(video.retrieve()[1], cv2.COLOR_BGR2RGB))
    return np.stack(frames), {"total": total, "fps": rate, "chosen": chosen}
