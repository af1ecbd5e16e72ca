# SPDX-License-Identifier: Apache-2.0
"""Scores: known values."""

import pytest

from demo_training.confidence import Judged, is_right, judged, summary
from demo_training.scores import (
    area_under_curve,
    edit_distance,
    f1,
    match_blocks,
    order_right,
    overlap,
    page_text,
)


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("flaw", "lawn", 2), ("same", "same", 0)],
)
def test_edit_distance(a, b, distance):
    assert edit_distance(a, b) == edit_distance(b, a) == distance


def test_overlap():
    assert overlap((0, 0, 10, 10), (0, 0, 10, 10)) == 1
    assert overlap((0, 0, 10, 10), (5, 0, 15, 10)) == pytest.approx(1 / 3)
    assert overlap((0, 0, 10, 10), (10, 0, 20, 10)) == 0


def test_blocks_match_once_and_by_label():
    truth = [("text", (0, 0, 10, 10)), ("table", (0, 20, 10, 30))]
    found = [("text", (0, 0, 10, 9)), ("text", (0, 0, 10, 10)), ("text", (0, 20, 10, 30))]
    assert match_blocks(found, truth) == [(1, 0)]
    assert f1(1, len(found), len(truth)) == pytest.approx(0.4)


def test_order_ignores_marginal_blocks():
    labels = ["header", "text", "text", "footer"]
    assert order_right([(0, 3), (1, 1), (2, 2), (3, 0)], labels)
    assert not order_right([(0, 2), (1, 1)], labels)


def test_page_text_leaves_out_what_the_markdown_drops():
    blocks = [
        ("header", "Top"),
        ("doc_title", "A  title"),
        ("table", "<table>x</table>"),
        ("text", "one\ntwo &amp; three"),
    ]
    assert page_text(blocks) == "A title one two & three"


def test_the_area_under_the_curve_is_the_share_of_pairs_in_order():
    assert area_under_curve([0.9, 0.8], [0.1, 0.7]) == 1
    assert area_under_curve([0.9, 0.5], [0.9, 0.7]) == pytest.approx((0.5 + 1 + 0 + 0) / 4)
    assert area_under_curve([0.1], [0.2]) == 0
    with pytest.raises(ValueError, match="0 right and 1 wrong"):
        area_under_curve([], [0.1])


def test_a_text_is_right_up_to_two_per_cent():
    assert is_right("a" * 49 + "b", "a" * 50) and not is_right("a" * 48 + "bb", "a" * 50)
    assert is_right("<b>same</b>\n words", "same words") and not is_right("sane words", "same words")


def test_blocks_are_judged_by_their_confidence():
    drawn = [("text", "One line."), ("text", "Another line."), ("text", "again"), ("text", "first half"), ("table", "")]
    truth = [
        {"label": label, "bbox": [0, 20 * n, 50, 20 * n + 15], "text": text} for n, (label, text) in enumerate(drawn)
    ]
    read = [("One line.", 0.99), ("Anothr line.", 0.7), ("again again", None), ("first half, second", 0.9), ("", 0.9)]
    blocks = [
        {"block_label": one["label"], "block_bbox": one["bbox"], "block_content": text, "confidence": confidence}
        | {"doubtful": confidence is None, "group_id": n}
        for n, (one, (text, confidence)) in enumerate(zip(truth, read, strict=True))
    ]
    blocks.append({**blocks[3], "block_bbox": [60, 0, 90, 15], "block_content": "", "confidence": None})
    found = list(judged({"parsing_res_list": blocks}, {"blocks": truth}))
    assert sorted(found, key=lambda one: -one.confidence) == [
        Judged(0.99, True), Judged(0.7, False), Judged(0.0, False),
    ]  # fmt: skip
    told = summary(found)
    assert (told["blocks"], told["area_under_curve"]) == ({"right": 1, "wrong": 2}, 1)
    assert told["marked_below"]["0.8"] == {"wrong_marked": 1, "right_marked": 0}
    blocks[0] |= {"confidence": None}
    with pytest.raises(ValueError, match="PARSER_CONFIDENCE=1"):
        list(judged({"parsing_res_list": blocks}, {"blocks": truth}))
