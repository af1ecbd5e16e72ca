# SPDX-License-Identifier: Apache-2.0
"""Bands whose text does not fit their print, which are asked again line by line (docs/decisions/0304).

A VLM that loses its place leaves a phrase out, says one twice, or loops. All three change how many letters stand for
how much print, and print can be measured without a model. In one line there is hardly a place to lose.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence

import numpy as np

from docparser.small_print import bands
from docparser.small_print.bands import Band
from docparser.vlm.client import Reply

# Letters for each small x that the print is long. Of 1,900 bands that TeX, Chromium and LibreOffice set, typewriters'
# faces among them, one in a hundred has less or more.
LEAST, MOST = 0.57, 1.16
USUAL = 0.2  # share by which a band may differ from the others of its block, which is set in the same face
PEERS = 3  # bands of a block, at least, that tell what is usual for it
SHORTEST = 14.0  # small x: in less print one letter more or less says nothing
BLANK = 0.8  # small x that a gap between two words counts for at most
AGAIN = re.compile(r"(\b\w[^\n]{3,60}?)(?:[\s,;.]+\1\b){2,}")  # a phrase said three times in a row


def print_length(band: Band) -> float:
    """Length of all lines of a band's print, in heights of a small x; 0 where it has none that is known."""
    if not band.bodies:
        return 0.0
    inked = bands.inked(band.grey)
    length = 0.0
    for first, last in band.bodies:
        columns = np.flatnonzero(inked[first:last].any(axis=0))
        if len(columns):
            length += 1 + float(np.minimum(np.diff(columns), max(1.0, BLANK * band.x_height)).sum())
    return length / band.x_height


def doubtful(asked: Sequence[Band], replies: Sequence[Reply]) -> list[int]:
    """Numbers of the bands of a block whose texts do not fit their print. Of a single line, none: it would be asked the
    same again."""
    lengths = [print_length(band) for band in asked]
    rates = [len(reply.text.strip()) / length if length else 0.0 for reply, length in zip(replies, lengths)]
    whole = [rate for rate, length in zip(rates, lengths) if length >= SHORTEST]
    usual = statistics.median(whole) if len(whole) >= PEERS else None
    return [
        number
        for number, (band, reply) in enumerate(zip(asked, replies))
        if len(band.bodies) > 1
        and (reply.note is None or reply.note.has_text)
        and lengths[number] >= SHORTEST
        and (reply.note is not None or not fits(reply.text, rates[number], usual))
    ]


def fits(text: str, rate: float, usual: float | None) -> bool:
    """Whether ``text``, with ``rate`` letters for each small x of print, may be what the print says."""
    if not LEAST <= rate <= MOST or AGAIN.search(text):
        return False
    return usual is None or abs(rate / usual - 1) <= USUAL


def better(first: Reply, second: Reply, band: Band) -> Reply:
    """Of two replies to one band the one whose length fits its print better; the tokens of both count."""
    length = print_length(band)

    def misfit(reply: Reply) -> tuple[bool, float]:
        rate = len(reply.text.strip()) / length
        return (
            reply.note is not None or bool(AGAIN.search(reply.text)),
            max(0.0, LEAST - rate, rate - MOST) if reply.text.strip() else 9.0,
        )

    chosen = second if misfit(second) <= misfit(first) else first
    tokens = (first.tokens[0] + second.tokens[0], first.tokens[1] + second.tokens[1])
    return Reply(chosen.text, chosen.note, tokens, chosen.confidence)
