# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of workshop/benchmarks/bench_text_modes.py."""

from __future__ import annotations

import pytest

import bench_text_modes

SOURCE = [f"word{number}" for number in range(1000)]
PAGE = ["header", *SOURCE[300:400], "17"]


def test_a_page_is_found_in_its_source_by_words_that_stand_there_once():
    index = {tuple(SOURCE[at : at + 4]): [at] for at in range(len(SOURCE) - 3)}
    assert bench_text_modes.place_of(PAGE, SOURCE, index) == (300, 400)
    assert bench_text_modes.place_of(PAGE[:50], SOURCE, index) is None, "too few words to judge"
    assert bench_text_modes.place_of([*PAGE, *["other"] * 20], SOURCE, index) is None, "not the same words"


def test_the_truth_are_words_that_both_have():
    page, source = "header as section 5 says 17".split(), "as section 5 Names says".split()
    assert bench_text_modes.in_both(page, source) == "as section 5 says".split()


@pytest.mark.parametrize(
    "answer, count",
    [
        ("header one two three 17", 0),  # of the page, and not of the source
        ("one tvvo three", 1),
        ("one three", 1),
        ("one two two three", 1),
        ("one two three header header", 1),  # the page has it once
    ],
)
def test_words_wrong(answer: str, count: int):
    assert bench_text_modes.wrong(answer.split(), "one two three".split(), "header one two three 17".split()) == count


def test_words_are_runs_of_letters_and_ideographs():
    assert bench_text_modes.words_of("Apt-get 2.0: \uff21\u4e2d\u6587") == [
        "Apt",
        "get",
        "2",
        "0",
        "A",
        "\u4e2d",
        "\u6587",
    ]
