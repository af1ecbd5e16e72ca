# SPDX-License-Identifier: Apache-2.0
"""Outlines of blocks that enclose nothing.

PP-DocLayoutV3's masks become outlines, and PaddleX (3.7.2, ``calculate_polygon_overlap_ratio``) divides by their areas.
A mask that is a line, there and back, has none, and one such block would cost the page. It can go when PaddleX treats
them as their boxes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from shapely.errors import ShapelyError  # type: ignore[import-untyped]  # it comes without types

log = logging.getLogger(__name__)
BOXES_ONLY = "rect"
T = TypeVar("T")


def with_boxes_at_least(work: Callable[[str], T], shape_mode: str) -> T:
    """``work(shape_mode)``, PaddleX's work with outlines; with the boxes alone where an outline cannot be computed
    with."""
    try:
        return work(shape_mode)
    except (ZeroDivisionError, ShapelyError) as exc:
        if shape_mode == BOXES_ONLY:
            raise
        log.warning("the blocks of a page are cut out as boxes: an outline has no area (%s)", exc)
        return work(BOXES_ONLY)
