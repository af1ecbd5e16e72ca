# SPDX-License-Identifier: Apache-2.0
"""Positions of patches and tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from vlm_models.paddleocr_vl.image_processing import merge_block_order
from vlm_models.paddleocr_vl.positions import GridEmbeddingCache, ImageSpan, interpolate, mrope_positions, rotary_2d


def test_text_counts_up():
    positions, offset = mrope_positions(4, [])
    assert positions.tolist() == [[0, 1, 2, 3]] * 3 and offset == 0


def test_an_image_of_two_rows_and_three_columns():
    positions, offset = mrope_positions(9, [ImageSpan(2, 2, 3)])
    assert positions.tolist() == [
        [0, 1, 2, 2, 2, 2, 2, 2, 5],
        [0, 1, 2, 2, 2, 3, 3, 3, 5],
        [0, 1, 2, 3, 4, 2, 3, 4, 5],
    ]
    assert offset == 6 - 9


def test_images_in_any_order_and_at_the_ends():
    spans = [ImageSpan(4, 1, 2), ImageSpan(0, 2, 1)]
    positions, offset = mrope_positions(6, spans)
    assert positions[0].tolist() == [0, 0, 2, 3, 4, 4]
    assert positions[1].tolist() == [0, 1, 2, 3, 4, 4]
    assert positions[2].tolist() == [0, 0, 2, 3, 4, 5]
    assert offset == 0


@pytest.mark.parametrize(("rows", "columns"), [(27, 27), (2, 2), (10, 64), (120, 120), (4, 400)])
def test_interpolation_equals_torch(rows, columns):
    table = torch.randn(27 * 27, 8)
    square = table.view(1, 27, 27, 8).permute(0, 3, 1, 2)
    expected = F.interpolate(square, (rows, columns), mode="bilinear", align_corners=False)[0].flatten(1).T
    order = np.arange(rows * columns)
    torch.testing.assert_close(interpolate(table, rows, columns, order), expected, rtol=0, atol=2e-5)
    blocks = merge_block_order(rows, columns, 2) if rows % 2 == 0 and columns % 2 == 0 else order
    torch.testing.assert_close(interpolate(table, rows, columns, blocks), expected[blocks], rtol=0, atol=2e-5)


def test_rotary_turns_rows_and_columns_apart():
    cos, sin = rotary_2d(4, 6, 16, 10000.0)
    assert cos.shape == sin.shape == (24, 16)
    torch.testing.assert_close(cos[:, :8], cos[:, 8:])
    angle = torch.atan2(sin, cos).view(4, 6, 16)
    assert (angle[:, 1:, :4] == angle[:, :-1, :4]).all() and (angle[1:, :, 4:8] == angle[:-1, :, 4:8]).all()
    torch.testing.assert_close(angle[:, 0, 0], torch.tensor([0.0, 1.0, 2.0, 3.0]))


def test_cache_has_a_bound_and_forgets_the_oldest():
    cache, table = GridEmbeddingCache(2, 16, 10000.0, max_patches=100), torch.randn(9, 4)
    first = cache.get(4, 4, table)
    assert cache.get(4, 4, table) is first
    cache.get(8, 10, table)
    assert cache.get(4, 4, table) is first
    cache.get(2, 4, table)
    assert set(cache._grids) == {(4, 4), (2, 4)}
