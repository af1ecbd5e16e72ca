# SPDX-License-Identifier: Apache-2.0
"""Where formulas stand in a text, by the signs around them; and which signs only formulas have.

They are found in one pass, so time grows with the text's length, whatever it holds. A regular expression with an
opening and a closing mark would look for the closing one from every opening one anew, which takes the square of the
length where there is none. Here a search for a mark begins where the last one ended.
``web/static/formula_scanner.js`` does the same in the browser. Needs the standard library only.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

DISPLAY_MARKS = {"$$": "$$", "\\[": "\\]"}
DISPLAY_OPENS = re.compile(r"\$\$|\\\[")
INLINE_OPENS = re.compile(r"(?<![\\$\w])\$|\\\(")
DIGIT_OR_DOLLAR = re.compile(r"[\d$]")  # after a closing sign: then it is a price's
NAME = re.compile(r"[A-Za-z_{]")  # after a closing sign: then it may be a variable's, as in "$HOME/bin:$PATH"
# Tells a formula from prices: "$5 and $10" has no formula, "$ x $" and "$n^2$" are formulas.
MATHEMATICAL = re.compile(r"[\\^_={}+<>|*/]|^\s*[A-Za-z]\s*$")
WORDS = re.compile(r"[A-Za-z]{2},? +[A-Za-z]{2}")  # of a sentence, between two prices
LETTER = re.compile(r"[A-Za-z]")
BETWEEN_NAMES = "=+-*/<>,;:.|&"  # with these code ends before its next variable, and no formula ends
LONGEST_IN_DOLLARS = 2000  # characters
MASK = "\ue000"  # a private-use character, which no parsed page contains


@dataclasses.dataclass(frozen=True)
class Formula:
    """``text[start:end]`` is the formula with its marks, ``latex`` what is between them. ``display``: it stands on a
    line of its own."""

    start: int
    end: int
    latex: str
    display: bool = False

    def span(self) -> tuple[int, int]:
        return self.start, self.end


def formulas_in(text: str) -> list[Formula]:
    """All of a text, in order. One inside another is no LaTeX; the outer one keeps its text."""
    display = list(display_formulas(text))
    pieces, at = [], 0
    for formula in display:
        pieces += [text[at : formula.start], MASK * (formula.end - formula.start)]
        at = formula.end
    found: list[Formula] = []
    for formula in sorted([*display, *inline_formulas("".join([*pieces, text[at:]]))], key=Formula.span):
        if found and formula.start < found[-1].end:
            continue
        if MASK in formula.latex and not formula.display:
            sign = (formula.end - formula.start - len(formula.latex)) // 2
            inside = re.sub(r"\$\$|\\[\[\]]", "", text[formula.start + sign : formula.end - sign])
            formula = dataclasses.replace(formula, latex=inside)
        found.append(formula)
    return found


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
            yield Formula(opens.start(), end + 2, text[opens.end() : end], display=True)
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
    inside, after = text[begin : min(end, begin + LONGEST_IN_DOLLARS + 1)], text[end + 1 : end + 2]
    if len(inside) > LONGEST_IN_DOLLARS or DIGIT_OR_DOLLAR.match(after):
        return False
    # PaddleX sets a blank at both ends, others none. With one, the signs are those of prices, units or variables.
    blank = inside[0] == " "
    if blank != (inside[-1] == " ") or not MATHEMATICAL.search(inside):
        return False
    if "\\" in inside:  # a command, so a formula, even if it is an interval like "x \in ]0, 1["
        return True
    if WORDS.search(inside):
        return False
    return blank or not (_torn(inside) or (NAME.match(after) and not _ends_before_a_name(inside)))


def _torn(inside: str) -> bool:
    """Whether a bracket lacks its other, as between the signs of "($/t) and ($/kg)"."""
    depth = 0
    for sign in inside:
        depth += (sign in "([{") - (sign in ")]}")
        if depth < 0:
            return True
    return depth > 0


def _ends_before_a_name(inside: str) -> bool:
    """Whether it is a formula although a letter follows, as in "$n$th" and "10$^3$m"."""
    raised = "^" in inside or ("_" in inside and inside[0] != "{")
    return (raised and inside[-1] not in BETWEEN_NAMES) or LETTER.fullmatch(inside) is not None


def is_of_formulas(sign: str) -> bool:
    """Whether only formulas have the sign, with marks around it or without."""
    if "\U0001d400" <= sign <= "\U0001d7ff":  # italic, bold, script letters
        return True
    return "\u2200" <= sign <= "\u22ff" and sign not in "\u2212\u2215\u2219\u2022\u22ef\u22c5"  # operators
