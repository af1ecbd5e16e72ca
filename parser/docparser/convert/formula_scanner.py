# SPDX-License-Identifier: Apache-2.0
"""Where formulas stand in a text, in one pass: time grows with the text's length, whatever it holds.

A regular expression with an opening and a closing mark looks for the closing one from every opening one anew, which
takes the square of the length when there is none. Here a search for a mark begins where the last one ended.
``web/static/formulas.js`` does the same in the browser.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

DISPLAY_MARKS = {"$$": "$$", "\\[": "\\]"}
DISPLAY_OPENS = re.compile(r"\$\$|\\\[")
INLINE_OPENS = re.compile(r"(?<![\\$\w])\$|\\\(")
DIGIT_OR_DOLLAR = re.compile(r"[\d$]")  # after a closing sign: then it is a price's
# Tells a formula from prices: "$5 and $10" has no formula, "$ x $" and "$n^2$" are formulas.
MATHEMATICAL = re.compile(r"[\\^_={}+<>|*/]|^\s*[A-Za-z]\s*$")
LONGEST_IN_DOLLARS = 2000  # characters


@dataclasses.dataclass(frozen=True)
class Formula:
    """``text[start:end]`` is the formula with its marks, ``latex`` what is between them."""

    start: int
    end: int
    latex: str


class _Ahead:
    """The next place of a mark. Positions that are asked for must not fall."""

    def __init__(self, text: str, mark: str) -> None:
        self._text, self._mark = text, mark
        self._next = -1

    def at_or_after(self, position: int) -> int:
        """The length of the text if the mark does not follow."""
        if self._next < position:
            found = self._text.find(self._mark, position)
            self._next = found if found >= 0 else len(self._text)
        return self._next


def display_formulas(text: str) -> Iterator[Formula]:
    """``$$...$$`` and ``\\[...\\]``, over lines too."""
    closing = {opens: _Ahead(text, closes) for opens, closes in DISPLAY_MARKS.items()}
    at = 0
    while opens := DISPLAY_OPENS.search(text, at):
        end = closing[opens[0]].at_or_after(opens.end() + 1)
        if end < len(text):
            yield Formula(opens.start(), end + 2, text[opens.end() : end])
            at = end + 2
        else:
            at = opens.start() + 1


def inline_formulas(text: str) -> Iterator[Formula]:
    """``$...$`` and ``\\(...\\)``, within a line; a text between dollars only if it looks like a formula."""
    closing = {"$": _Ahead(text, "$"), "\\(": _Ahead(text, "\\)")}
    newlines = _Ahead(text, "\n")
    at = 0
    while opens := INLINE_OPENS.search(text, at):
        begin, sign = opens.end(), opens[0]
        end = closing[sign].at_or_after(begin if sign == "$" else begin + 1)
        if end < len(text) and begin < end < newlines.at_or_after(begin) + 1:
            after = end + (1 if sign == "$" else 2)
            if sign != "$" or _between_dollars(text, begin, end):
                yield Formula(opens.start(), after, text[begin:end])
                at = after
                continue
        at = opens.start() + 1  # a sign that closes nothing may open the next formula


def _between_dollars(text: str, begin: int, end: int) -> bool:
    if end - begin > LONGEST_IN_DOLLARS or DIGIT_OR_DOLLAR.match(text, end + 1):
        return False
    return MATHEMATICAL.search(text[begin:end]) is not None
