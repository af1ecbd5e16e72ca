# SPDX-License-Identifier: Apache-2.0
"""The layout model's picture as bytes until an engine wants numbers. Imported in worker processes only.

PaddleX makes float32 of the picture, plane by plane, and stacks these: 7.7 MB several times, of which a layout server
gets the bytes again. Here a page stays `uint8` (1.9 MB). An engine on the CPU gets ``full_image`` of it, which is
PaddleX's own product, bit for bit.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from paddlex.inference.models.object_detection.processors import Normalize, ToBatch, ToCHWImage

from layout_wire import STEP


class BytesToBatch(ToBatch):
    """PaddleX's last step, whose picture is uint8 ``[pages, 3, height, width]``."""

    def apply(self, datas: list[dict], key: str, *args: Any, **kwargs: Any) -> np.ndarray:
        if key != "img":
            return super().apply(datas, key, *args, **kwargs)
        return np.stack([np.stack(cv2.split(data["img"])) for data in datas])


def keep_bytes(model: Any) -> bool:
    """Let PaddleX's layout model hand bytes to its runner; False, and nothing changed, where its picture is not made by
    a plain division by 255."""
    *before, normalize, planes, batch = model.pre_ops
    plain = (
        isinstance(normalize, Normalize)
        and isinstance(planes, ToCHWImage)
        and type(batch) is ToBatch
        and [np.float32(factor) for factor in normalize.alpha] == [STEP] * 3
        and not any(normalize.beta)
    )
    if plain:
        model.pre_ops = [*before, BytesToBatch(batch.ordered_required_keys)]
    return plain
