# SPDX-License-Identifier: Apache-2.0
"""A scanned page is the drawn one, askew on grey paper, and the parser's bands find it upright again."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageChops

from demo_training.pages.documents import draw_page
from demo_training.pages.page import Block, Page
from demo_training.pages.scanned import MOST_DEGREES, scan, scan_page
from docparser.small_print import bands


def test_a_scan_is_askew_grey_and_the_same_each_time():
    page = draw_page(7, "heldout", core=True)
    scanned = scan(page.image, 7)
    assert scanned.size == page.image.size and scanned.mode == "RGB"
    assert ImageChops.difference(scanned, scan(page.image, 7)).getbbox() is None
    grey = np.asarray(scanned.convert("L"))
    assert 180 < np.median(grey) < 245 and grey.min() < 80


def test_lines_of_a_scan_are_as_askew_as_its_page():
    page = draw_page(7, "heldout", core=True)
    widest = max((block for block in page.truth()["blocks"] if block["label"] == "text"), key=lambda b: len(b["text"]))
    left, top, right, bottom = (int(value) for value in widest["bbox"])
    found = set()
    for seed in range(4):
        block = scan(page.image, seed).crop((left, top - 12, right, bottom + 12))
        found.add(round(bands.skew(np.asarray(block.convert("L"))), 1))
    assert len(found) > 1 and max(map(abs, found)) <= MOST_DEGREES + 0.2


def test_blocks_of_a_scan_hold_what_they_held():
    boxes = [(60, 80, 900, 120), (60, 200, 460, 700), (520, 200, 920, 700), (100, 1200, 300, 1230)]
    for seed in range(6):
        page = Page(Image.new("RGB", (980, 1400), "white"), [Block("text", box) for box in boxes])
        for box in boxes:
            page.image.paste((0, 0, 0), box)
        scanned = scan_page(page, seed)
        ink = np.asarray(scanned.image.convert("L")) < 60
        inside = np.zeros_like(ink)
        for block in scanned.blocks:
            left, top, right, bottom = block.bbox
            inside[top - 1 : bottom + 1, left - 1 : right + 1] = True
            rows, columns = np.nonzero(ink[top:bottom, left:right])
            assert rows.min() <= 3 and rows.max() >= bottom - top - 4, "the box is no higher than needed"
            assert columns.min() <= 3 and columns.max() >= right - left - 4, "the box is no wider than needed"
        assert not (ink & ~inside).any()
