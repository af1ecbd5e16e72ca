# SPDX-License-Identifier: Apache-2.0
"""Detects that a model repeats itself, while it still writes.

Small decoders run into loops on hard crops and write until ``max_tokens``. A loop is a tail of the text that has a
period: at least ``MIN_TIMES`` times the same piece, and at least ``least`` characters in all. Dot leaders and rules of
a table repeat as well, so the bounds are far above the length of a printed line. In tables, where empty cells repeat
rightly, they are higher.
"""

from __future__ import annotations

MIN_TIMES = 8
TEXT_LEAST, TABLE_LEAST = 400, 4000  # characters
PROBE = 24  # the last characters, whose previous occurrence gives the period
LONGEST_PERIOD = 600


def repeated_tail(text: str, *, least: int) -> int:
    """The period of the repetition that ``text`` ends with, in characters; 0 if it ends with none."""
    if len(text) < least:
        return 0
    probe = text[-PROBE:]
    before = text.rfind(probe, max(0, len(text) - LONGEST_PERIOD - PROBE), len(text) - 1)
    if before < 0:
        return 0
    period = len(text) - PROBE - before
    length = max(least, MIN_TIMES * period)
    tail = text[-length:]
    return period if len(tail) == length and tail[period:] == tail[:-period] else 0


def cut_repetition(text: str, period: int) -> str:
    """``text`` with the repetition at its end cut down to one piece."""
    end = len(text)
    while end >= 2 * period and text[end - period : end] == text[end - 2 * period : end - period]:
        end -= period
    return text[:end]
