# SPDX-License-Identifier: Apache-2.0
"""Settings that PaddleX and its libraries read from the environment while they are imported.

PaddleX looks for a reachable model hub when it is imported, and downloads a font when it first draws a picture.
Neither may happen here: everything that the service needs is on the machine.
"""

from __future__ import annotations

import os
from pathlib import Path


def prepare(cache: Path) -> None:
    """Set the variables. Call it before paddleocr is imported; values that the operator has set are kept. ``cache`` is
    PARSER_CACHE_DIR."""
    cache.mkdir(parents=True, exist_ok=True)
    defaults = {
        "PADDLE_PDX_DISABLE_MODEL_SOURCE_CHECK": "True",
        "PADDLE_PDX_CACHE_HOME": str(cache / "paddlex"),
        "PADDLE_PDX_LOCAL_FONT_FILE_PATH": str(_drawing_font(cache)),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",  # Paddle has its own setting (cpu_threads), and warns of any other value here
        "OPENBLAS_NUM_THREADS": "1",
        # OpenCV would start a thread for each core of the machine in each worker: on 640 cores more than the container
        # may have, and no other thread or process could begin.
        "OPENCV_FOR_THREADS_NUM": "1",
        # Otherwise idle threads of the layout model spin for 0.2 s on cores that others need.
        "KMP_BLOCKTIME": "0",
    }
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


def _drawing_font(folder: Path) -> Path:
    """The font that comes inside Pillow (Aileron, CC0), as a file: PaddleX wants a path.

    It has no CJK glyphs. Only the class names in layout pictures and the text of ``spotting`` pictures are drawn with
    it; PADDLE_PDX_LOCAL_FONT_FILE_PATH names another one.
    """
    path = folder / "Aileron-Regular.ttf"
    if not path.is_file():
        from PIL import ImageFont

        unfinished = folder / f"{path.name}.{os.getpid()}"
        font = ImageFont.load_default(12)
        assert isinstance(font, ImageFont.FreeTypeFont), "Pillow was built without FreeType"
        unfinished.write_bytes(font.font_bytes)
        unfinished.replace(path)
    return path
