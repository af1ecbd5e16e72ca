# SPDX-License-Identifier: Apache-2.0
"""Drawn pages: the ground truth is what is on the paper."""

import numpy as np
import pytest

from demo_training.drawing.words import words
from demo_training.pages.browser import draw_browser_page
from demo_training.pages.documents import KINDS, draw_page
from demo_training.pages.labels import DRAWN
from demo_training.pages.plain import FAMILIES, SIZES, draw_plain_page
from demo_training.pages.style import CORE_X_HEIGHT


@pytest.fixture(scope="module")
def pages():
    return [draw_page(seed, "heldout", kind) for seed, kind in enumerate([*KINDS, "article", "article"])]


def test_same_seed_same_page():
    first, again, other = draw_page(7, "train"), draw_page(7, "train"), draw_page(8, "train")
    assert first.truth() == again.truth() != other.truth()
    assert first.image.tobytes() == again.image.tobytes()


def test_blocks_lie_on_the_page_and_apart(pages):
    for page in pages:
        width, height = page.image.size
        assert page.blocks
        for block in page.blocks:
            left, top, right, bottom = block.bbox
            assert block.label in DRAWN
            assert 0 <= left < right <= width and 0 <= top < bottom <= height
        boxes = [block.bbox for block in page.blocks]
        for index, a in enumerate(boxes):
            for b in boxes[index + 1 :]:
                shared = max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))
                assert shared <= 0.02 * min((a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1])), (a, b)


def test_boxes_bound_the_ink(pages):
    """Just inside each side of a text block there is ink, just outside there is paper."""
    for page in pages:
        grey = np.asarray(page.image.convert("L"), np.float32)
        for block in page.blocks:
            if block.label != "text":
                continue
            left, top, right, bottom = block.bbox
            inside = grey[top:bottom, left:right]
            assert inside.max() - inside.min() > 60, block.text
            above = grey[max(0, top - 3) : max(1, top - 1), left:right]
            assert above.size == 0 or np.percentile(above, 5) > inside.min() + 40


def test_text_blocks_hold_their_lines(pages):
    for page in pages:
        for block in page.blocks:
            if block.label in ("image", "chart"):
                assert not block.text
            elif block.label == "table":
                assert len({len(row) for row in block.cells}) == 1
            else:
                assert block.text == " ".join(block.lines) and block.text.strip()
                assert block.text.isascii()


def test_held_out_words_are_not_trained_on():
    assert not set(words("train")) & set(words("heldout"))


def test_core_pages_keep_to_the_core_sizes():
    """The smallest letters of a core page's text are as high as the core range says."""
    import random

    from demo_training.pages.style import draw_style

    for seed in range(50):
        style = draw_style(random.Random(seed), core=True)
        low, high = CORE_X_HEIGHT
        assert style.body.core
        for wanted in (1, style.size, 500):
            x_height = style.fit(style.heading, wanted) * style.heading.x_height
            assert low - 0.6 <= x_height <= high + 0.6


def test_long_paragraphs_are_beyond_the_core_range():
    def longest(core: bool) -> int:
        return max(len(block.lines) for seed in range(40) for block in draw_page(seed, "train", core=core).blocks)

    assert longest(core=True) <= 8 and longest(core=False) > 15


def test_unknown_kind_is_named():
    with pytest.raises(ValueError, match="'poster'.*article"):
        draw_page(1, "train", kind="poster")


def test_plain_pages_come_in_every_size_face_and_number_of_columns():
    first, again = draw_plain_page(3, "heldout"), draw_plain_page(3, "heldout")
    assert first.truth() == again.truth()
    assert len({(seed % len(SIZES), seed % len(FAMILIES), seed % 2) for seed in range(30)}) == 30
    for seed in (0, 1):
        page = draw_plain_page(seed, "heldout")
        assert page.image.size == (1240, 1754)
        title, *paragraphs = page.blocks
        assert title.label == "doc_title" and {block.label for block in paragraphs} == {"text"}
        columns = {block.bbox[0] // 300 for block in paragraphs}
        assert len(columns) == 1 + seed
        assert all(2 <= len(block.lines) <= 5 and block.bbox[2] <= 1240 - 80 for block in paragraphs)


@pytest.mark.parametrize("seed", [0, 1])
def test_pages_that_a_browser_typeset_have_one_column_or_two(seed):
    page, again = draw_browser_page(seed), draw_browser_page(seed)
    assert page.truth() == again.truth() and page.image.size == (1240, 1754)
    title, *rest = page.blocks
    assert title.label == "doc_title" and {block.label for block in rest} <= {"text", "paragraph_title"}
    assert len({block.bbox[0] // 400 for block in rest}) == 1 + seed
    for block in page.blocks:
        left, top, right, bottom = block.bbox
        assert 60 < left < right < 1180 and 60 < top < bottom < 1690
    for above, below in zip(rest, rest[1:]):
        assert above.bbox[3] < below.bbox[1] or above.bbox[2] < below.bbox[0], "in reading order, and apart"
