# SPDX-License-Identifier: Apache-2.0
"""Scores: known values."""

import pytest

from demo_training.scores import edit_distance, f1, match_blocks, order_right, overlap, page_text


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
