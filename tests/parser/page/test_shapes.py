# SPDX-License-Identifier: Apache-2.0
"""An outline without an area costs no page: PaddleX's own post-processing divides by it."""

from __future__ import annotations

import numpy as np
import pytest
from paddlex.inference.models.layout_analysis.processors import extract_polygon_points_by_masks
from paddlex.inference.pipelines.paddleocr_vl.uilts import filter_overlap_boxes

from docparser.page.paddlex_private import with_boxes_at_least

LINE = np.array([[0, 0], [100, 0], [100, 100], [100, 0]], np.float32)  # there and back


def test_blocks_whose_outlines_have_no_area():
    block = {"cls_id": 22, "label": "text", "score": 0.9, "coordinate": [0, 0, 100, 100], "polygon_points": LINE}
    layout = {"boxes": [block, dict(block)]}
    with pytest.raises(ZeroDivisionError):
        filter_overlap_boxes(layout, "auto")
    kept = with_boxes_at_least(lambda mode: filter_overlap_boxes(layout, mode), "auto")
    assert len(kept["boxes"]) == 1, "one of two equal boxes"


def test_other_faults_are_not_hidden():
    with pytest.raises(ZeroDivisionError):
        with_boxes_at_least(lambda mode: 1 / 0, "rect")
    boxes, masks = np.array([[22, 0.9, 0, 0, 100, 100]], np.float32), np.ones((1, 200, 200), np.int32)
    with pytest.raises(ValueError, match="layout_shape_mode"):
        with_boxes_at_least(lambda mode: extract_polygon_points_by_masks(boxes, masks, (8, 8), mode), "oval")
