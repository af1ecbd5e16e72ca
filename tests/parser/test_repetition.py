# SPDX-License-Identifier: Apache-2.0
"""The detector tells a VLM's loop from printed text that really repeats itself."""

from __future__ import annotations

import random

import pytest

from docparser.vlm.repetition import TABLE, TEXT, cut_repetition, repeated_tail


@pytest.mark.parametrize(
    "piece", ["a", "ab", "\u3002", "the same words again, ", "x" * 99 + "\n", "<fcel>12<fcel><nl>"]
)
def test_loops_are_found(piece):
    text = "A line of print. " + piece * (max(TEXT.least, 8 * len(piece)) // len(piece) + 2)
    period = repeated_tail(text, TEXT)
    assert period and (len(piece) % period == 0 or period % len(piece) == 0)
    assert cut_repetition(text, period) in (f"A line of print. {piece}", text[: len("A line of print. ") + period])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "short short short short",
        "Contents " + "." * 200 + " 7",
        "1 Introduction" + "." * 350,
        "-" * 380,
        "<ecel>" * 60 + "<nl>",
        "".join(f"{number}. item\n" for number in range(400)),
        "".join(random.Random(5).choices("abcdefgh \n", k=20_000)),
        "a b c " * 80 + "and then something else, which ends it.",
    ],
)
def test_print_is_left_alone(text):
    assert repeated_tail(text, TEXT) == 0


def test_tables_may_repeat_more():
    cells = "<ecel>" * 300 + "<nl>"
    assert repeated_tail(cells[:-4], TABLE) == 0
    assert repeated_tail("<ecel>" * 1000, TABLE) == 6
