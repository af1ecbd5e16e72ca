# SPDX-License-Identifier: Apache-2.0
"""Pages with a simple table: their truth, and that the same seed draws the same page."""

import numpy as np
import pytest

from demo_training.pages.simple_tables import HEADS, HEIGHT, KINDS, MARGIN, WIDTH, draw_table_page, look_of


def test_twelve_seeds_have_each_look_once():
    assert len({look_of(seed) for seed in range(12)}) == len(KINDS) * len(HEADS) == 12


@pytest.mark.parametrize("seed", range(12))
def test_a_table_has_its_truth(seed):
    page = draw_table_page(seed, "train")
    table = page.blocks[1]
    labels = [block.label for block in page.blocks]
    assert labels[:2] == ["text", "table"] and len(labels) > 2 and set(labels[2:]) == {"text"}
    assert 3 <= len(table.cells) <= 10 and 2 <= len(table.cells[0]) <= 8
    assert len({len(row) for row in table.cells}) == 1 and all(table.cells[0])
    left, top, right, bottom = table.bbox
    assert MARGIN - 4 <= left < right <= WIDTH - MARGIN + 5 and 0 < top < bottom < HEIGHT
    again = draw_table_page(seed, "train")
    assert again.truth() == page.truth() and np.array_equal(np.asarray(again.image), np.asarray(page.image))
    assert draw_table_page(seed, "heldout").truth() != page.truth()
