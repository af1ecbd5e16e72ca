# SPDX-License-Identifier: Apache-2.0
"""The layout model's picture as bytes until an engine wants numbers.

PaddleX makes float32 of the picture, plane by plane, and stacks these: 7.7 MB several times, of which a layout server
gets the bytes again. Here a page stays `uint8` (1.9 MB). An engine on the CPU gets ``full_image`` of it, which is
PaddleX's own product, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

from docparser.page.paddlex_private import Normalize, ToBatch, ToCHWImage
from layout_wire import STEP

Step = Callable[[list], Any]


class BytesToBatch(ToBatch):
    """PaddleX's last step, whose picture is uint8 ``[pages, 3, height, width]``."""

    def apply(self, datas: list[dict], key: str, *args: Any, **kwargs: Any) -> np.ndarray:
        if key != "img":
            return super().apply(datas, key, *args, **kwargs)
        return np.stack([np.stack(cv2.split(data["img"])) for data in datas])


def in_bytes(steps: list[Step]) -> list[Step] | None:
    """The steps that PaddleX's layout model takes before its engine, for a picture that stays bytes; None where it is
    not made by a plain division by 255."""
    *before, normalize, planes, batch = steps
    plain = (
        isinstance(normalize, Normalize)
        and isinstance(planes, ToCHWImage)
        and type(batch) is ToBatch
        and [np.float32(factor) for factor in normalize.alpha] == [STEP] * 3
        and not any(normalize.beta)
    )
    return [*before, BytesToBatch(batch.ordered_required_keys)] if plain else None
