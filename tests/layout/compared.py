# SPDX-License-Identifier: Apache-2.0
"""What engines are compared on: models of the published architecture; and how near two boxes are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.processes import child_environment


def iou(one: list[float], other: list[float]) -> float:
    """Intersection over union of two boxes, x1, y1, x2, y2."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(width, 0) * max(height, 0)
    area = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return shared / (area - shared)


# A published model -> the module that makes one of its architecture.
MAKERS = {
    "PP-DocLayoutV2": "demo_training.layout.published_shape",
    "PP-DocLayoutV3": "demo_training.layout.published_shape_v3",
}


def published_shape(name: str, folder: Path, *options: str) -> Path:
    """A model of the published architecture with random weights."""
    command = [sys.executable, "-m", MAKERS[name], str(folder), *options]
    made = subprocess.run(command, env=child_environment(OMP_NUM_THREADS="1"), capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return folder
