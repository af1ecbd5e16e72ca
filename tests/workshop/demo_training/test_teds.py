# SPDX-License-Identifier: Apache-2.0
"""TEDS: known values."""

import pytest

from demo_training.teds import markup_of, read, teds

SQUARE = markup_of([["a", "b"], ["c", "d"]])  # a table, two rows, four cells


def test_the_same_table_is_1_whatever_its_markup():
    styled = (
        "<p>x</p><table border=1><thead><tr><th style='a'> a </th><th><b>b</b></th></tr></thead>"
        "<tbody><tr><td>c</td><td>d</td></tr></tbody></table><table></table>"
    )
    assert teds(SQUARE, SQUARE) == teds(styled, SQUARE) == 1.0


@pytest.mark.parametrize(
    ("cells", "cost", "nodes"),
    [
        ([["a", "b"], ["c", "xy"]], 1, 7),
        ([["a", "b"], ["c", ""]], 1, 7),
        ([["a", "b"], ["c", "dx"]], 0.5, 7),
        ([["a", "b"], ["c"]], 1, 7),
        ([["a", "b"]], 3, 7),
        ([["a", "b", "e"], ["c", "d"]], 1, 8),
        ([["a", "b"], ["x", "y"], ["c", "d"]], 3, 10),
    ],
)
def test_each_change_costs_what_it_should(cells, cost, nodes):
    other = markup_of(cells)
    assert teds(other, SQUARE) == teds(SQUARE, other) == pytest.approx(1 - cost / nodes)


def test_a_cell_of_other_spans_is_another_cell():
    wide = '<table><tr><td colspan="2">a</td></tr><tr><td>c</td><td>d</td></tr></table>'
    one = "<table><tr><td>a</td></tr><tr><td>c</td><td>d</td></tr></table>"
    assert teds(one, wide) == pytest.approx(1 - 1 / 6)


def test_nothing_found_is_0():
    assert teds("no table here", SQUARE) == 0.0
    assert read("a < b") is None
    with pytest.raises(ValueError, match="has no table"):
        teds(SQUARE, "nothing")


def test_texts_are_compared_as_read():
    assert teds("<table><tr><td>a &lt;  b</td></tr></table>", markup_of([["a < b"]])) == 1.0
