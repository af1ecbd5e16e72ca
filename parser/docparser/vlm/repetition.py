# SPDX-License-Identifier: Apache-2.0
"""Detects that a model repeats itself, while it still writes.

Small decoders run into loops on hard crops and write until ``max_tokens``. A loop is a tail of the text that has a
period: several times the same piece, and a number of characters in all. Dot leaders and rules of a table repeat as
well, so the bounds are far above the length of a printed line. In tables and on whole pages, where empty cells repeat
rightly, they are higher.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

PROBE = 24  # the last characters, whose earlier occurrences give the periods to try
MOST_PERIODS = 16  # tried at a time; the probe may stand several times in one piece


@dataclasses.dataclass(frozen=True)
class Guard:
    """What counts as a loop: at least ``times`` the same piece of at most ``longest`` characters, and at least
    ``least`` characters in all. ``again``: what was cut is read once more, with other sampling."""

    least: int
    times: int = 8
    longest: int = 600
    again: bool = True


TEXT, TABLE = Guard(400), Guard(4000)
# A band has four lines, of which a row of dots may be one. What loops is asked again line by line, not with other
# sampling.
BAND = Guard(200, longest=120, again=False)
# HunyuanOCR's authors look for ten times the same piece at the end, of any length, and cut it to one. A page takes the
# VLM as long as all blocks of a page, so it is not read again.
PAGE = Guard(4000, times=10, longest=8000, again=False)


def repeated_tail(text: str, guard: Guard) -> int:
    """The period of the repetition that ``text`` ends with, in characters; 0 if it ends with none."""
    if len(text) < guard.least:
        return 0
    for period in _periods(text, guard.longest):
        tail = text[-max(guard.least, guard.times * period) :]
        if len(tail) >= guard.times * period and tail[period:] == tail[:-period]:
            return period
    return 0


def _periods(text: str, longest: int) -> Iterator[int]:
    """Distances from the last characters to where they stand before, the shortest first."""
    probe, start, end = text[-PROBE:], max(0, len(text) - longest - PROBE), len(text) - 1
    for _ in range(MOST_PERIODS):
        end = text.rfind(probe, start, end)
        if end < 0:
            return
        yield len(text) - PROBE - end
        end += PROBE - 1


def cut_repetition(text: str, period: int) -> str:
    """``text`` with the repetition at its end cut down to one piece."""
    end = len(text)
    while end >= 2 * period and text[end - period : end] == text[end - 2 * period : end - period]:
        end -= period
    return text[:end]
