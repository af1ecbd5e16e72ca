# SPDX-License-Identifier: Apache-2.0
"""In which order a PDF draws a line that has words from right to left, so that its readers give the line back.

A PDF says no direction. PDFium takes a line apart into segments of one direction, in the order in which an operator
draws them, and turns round those from right to left, and all of them where most are (``fx_bidi.cpp``,
``CPDF_TextPage::CloseTempLine``). So they are drawn turned round, each at its place; poppler goes by the places.
"""

from __future__ import annotations

import itertools
import re
import unicodedata

from docparser.places.atoms import width

LEFT, RIGHT, WEAK, NUMBER, OTHER = "LRWN-"  # from left to right, to the left; signs that do not turn; numbers; the rest
KINDS = {"L": LEFT, "R": RIGHT, "AL": RIGHT} | dict.fromkeys(("EN", "AN", "NSM", "CS", "ES", "ET", "BN"), WEAK)
NUMERALS = ("EN", "AN")
MIRRORED = str.maketrans("()[]{}<>«»‹›‘’“”≤≥", ")(][}{><»«›‹’‘”“≥≤")


def pieces(text: str, leftwards: bool) -> list[tuple[int, str]]:
    """What is drawn one after the other: each with the step to the right before it, in thousandths of an em.
    ``leftwards``: the line belongs to text from right to left."""
    parts = [(kind, "".join(signs)) for kind, signs in itertools.groupby(text, _kind)]
    kinds = "".join(NUMBER if any(unicodedata.bidirectional(sign) in NUMERALS for sign in part) else kind
                    for kind, part in parts)  # fmt: skip
    turned = backward = kinds.count(RIGHT) > kinds.count(LEFT)
    drawn: list[str] = []
    for kind, part in parts:
        if kind in (LEFT, RIGHT):
            backward = kind == RIGHT
        turns = kind == RIGHT or (kind == OTHER and backward)
        drawn.append(part[::-1].translate(MIRRORED) if turns else part)
    starts, end = {}, 0
    for number in _from_the_left(kinds, leftwards):
        starts[number] = end
        end += _width(drawn[number])
    found: list[tuple[int, str]] = []
    end = 0
    for number in range(len(parts))[:: -1 if turned else 1]:
        step = starts[number] - end
        if step or not found:
            found.append((step, drawn[number]))
        else:
            found[-1] = found[-1][0], found[-1][1] + drawn[number]
        end += step + _width(drawn[number])
    return found


def _kind(sign: str) -> str:
    return KINDS.get(unicodedata.bidirectional(sign), OTHER)


def _width(text: str) -> int:
    return sum(map(width, text))


def _from_the_left(kinds: str, leftwards: bool) -> list[int]:
    """The segments as they are printed: words of the other direction, and numbers behind them, stand together."""
    own, other = (RIGHT, LEFT) if leftwards else (LEFT, RIGHT)
    order: list[int] = []
    for together in re.finditer(f"{other}[^{own}]*[{other}{NUMBER}]|.", kinds):
        numbers = list(range(*together.span()))
        order = [*numbers, *order] if leftwards else [*order, *reversed(numbers)]
    return order
