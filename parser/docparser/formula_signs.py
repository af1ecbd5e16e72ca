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
# More than two dollars in a row are no marks ("$$$ expensive"), nor is what a backslash escapes.
DISPLAY_OPENS = re.compile(r"(?<!\$)\$\$(?!\$)|(?<![\\^])\\\[")
INLINE_OPENS = re.compile(r"(?<![\\$\w])\$|(?<!\\)\\\(")
# Tells a formula from prices: "$5 and $10" has no formula, "$ x $" and "$n^2$" are formulas.
MATHEMATICAL = re.compile(r"[\\^_={}+<>|*/]|^\s*[A-Za-z]\s*$")
COMMAND = re.compile(r"\\(?:[A-Za-z]{2}|[,!{}|\\])|[\^_]\{")  # of LaTeX; "\n" and "\1" are of programs
# Of a sentence between two prices; of names, strings, commands and ends of statements in programs.
WORDS = re.compile(
    r"[A-Za-z]{2},? +[A-Za-z]{2}|[A-Za-z)%.,]\s+(?:[a-z]{3,}|or|to|in|of|at|by)(?=[\s,])|[A-Za-z]{2}_[A-Za-z]{2}"
    r"|[\"`€£¥]|==|\A\s[a-z]{2,}\s+(?:-[a-z]|[/.~][a-z/])|;\s*\Z"
)
LONG_WORD = re.compile(r"(?<![A-Za-z{])[A-Za-z]{4}")
ALPHANUMERIC = re.compile(r"[^\W_]")
DIGIT = re.compile(r"\d")
LETTER = re.compile(r"[A-Za-z]")
# After a closing sign: then it is a price's, a variable's ("$HOME/bin:$PATH"), a function's or a string's.
DIGIT_OR_DOLLAR = re.compile(r"[\d$]")
NAME = re.compile(r"[A-Za-z_{]")
AFTER_CODE = re.compile(r"[A-Za-z_{(\"'?!]")
AFTER_TWO_DOLLARS = re.compile(r"[A-Za-z_{(\d$@]")
# With these code ends before its next variable, and no formula ends.
ENDS_CODE = re.compile(r"(?:[=+\-*/<>,;:.|&@!?#%~^_\"']|\\[nrt])\Z")
AMOUNT = re.compile(r"\s*(?:[-+(~<>]+\s*)?[\d一二三四五六七八九十百千万]")
# Before the next amount: "$ 5 / $ 6", "$ 5/kg and $ 6/kg", and letters that formulas have in braces alone.
AFTER_AMOUNT = re.compile(
    r"\s(?:[A-Za-z]{3}|or\s|to\s)|[-+*/=<>|,;:.&(]\s*\Z|(?<![{\u0400-\ud7ff])[\u0400-\u1eff\u2e80-\ud7ff]"
)
EQUATION = re.compile(r"[=^_]")
NEXT_AMOUNT = re.compile(r"\s?[-+(~]?\d")
BEHIND_AMOUNT = re.compile(r"\s+(?:[/,;:]|\|\s)")  # "5 $ / 6 $"
SUM = re.compile(r"[-+=*/<>|]\s*\d[\d\s.,]*\Z")  # "5 $ + 3 $", where the sign stands behind the amount
# In brackets: dots, a word, options and quotes of commands, regular expressions, colours of terminals.
PRINTED = re.compile(
    r"\A\s*\Z|\A[\s*]*[.…][\s.…*]*\Z|\A\s*[a-z]{3,}\s*\Z|\A\s*(?:!\s*)?-[a-z]{3,}\s+[\w.\"'*/]"
    r"|\A(?![\s\S]*\\[A-Za-z]{2})[\s\S]*[\"`]|\A[A-Za-z0-9 -]+(?:\\\|[A-Za-z0-9 -]+)+\Z"
    r"|\.[*+]|\[\^|\[\[:|\[(?:a-z|A-Z|0-9)|(?<!\\)\\(?:[0-9]|[wdsebWDS](?![A-Za-z]))"
)
AFTER_GROUP = re.compile(r"\*[\w.$'\"/\\]|\\[+?{|]")
REFERENCE = re.compile(r"(?<!\\)\\[1-9]")  # to a group of a regular expression; "\\1" begins a row
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
    """``$$...$$`` and ``\\[...\\]``, over lines too; only what looks like a formula."""
    closing = {opens: _Ahead(text, closes) for opens, closes in DISPLAY_MARKS.items()}
    whole, at = (len(text) - len(text.lstrip()), len(text.rstrip())), 0
    while opens := DISPLAY_OPENS.search(text, at):
        begin, dollars = opens.end(), opens[0] == "$$"
        end = closing[opens[0]].at_or_after(begin + 1)
        if end == len(text):
            at = begin
        elif between_two_dollars(text, begin, end, whole) if dollars else between_brackets(text, begin, end):
            yield Formula(opens.start(), end + 2, text[begin:end], display=True)
            at = end + 2
        else:
            at = begin if dollars else end + 2  # dollars that close nothing may open the next formula


def inline_formulas(text: str) -> Iterator[Formula]:
    """``$...$`` and ``\\(...\\)``, within a line; only what looks like a formula."""
    closing = {"$": _Ahead(text, "$"), "\\(": _Ahead(text, "\\)")}
    newlines, expressions = _Ahead(text, "\n"), REFERENCE.search(text)
    at = 0
    while opens := INLINE_OPENS.search(text, at):
        begin, sign = opens.end(), opens[0]
        end = closing[sign].at_or_after(begin if sign == "$" else begin + 1)
        at = opens.start() + 1  # a dollar that closes nothing may open the next formula
        if end == len(text) or not begin < end < newlines.at_or_after(begin) + 1:
            continue
        if between_dollars(text, begin, end) if sign == "$" else not expressions and between_brackets(text, begin, end):
            yield Formula(opens.start(), end + len(sign), text[begin:end])
            at = end + len(sign)
        elif sign != "$":
            at = end + len(sign)


def between_brackets(text: str, begin: int, end: int) -> bool:
    return not (PRINTED.search(text[begin:end]) or AFTER_GROUP.match(text, end + 2))


def between_two_dollars(text: str, begin: int, end: int, whole: tuple[int, int]) -> bool:
    """``whole``: where the text begins and ends. A formula that is all of it needs no sign of mathematics."""
    inside, after = text[begin:end], text[end + 2 : end + 3]
    if COMMAND.search(inside):
        return after != "$"
    if WORDS.search(inside) or ";" in inside or not ALPHANUMERIC.search(inside):
        return False
    if (begin - 2, end + 2) == whole:
        return True
    return not (
        AFTER_TWO_DOLLARS.match(after)
        or inside[0].isspace() != inside[-1].isspace()
        or LONG_WORD.search(inside)
        or BEHIND_AMOUNT.match(inside)
        or not MATHEMATICAL.search(inside)
    )


def between_dollars(text: str, begin: int, end: int) -> bool:
    inside, after = text[begin : min(end, begin + LONGEST_IN_DOLLARS + 1)], text[end + 1 : end + 2]
    if len(inside) > LONGEST_IN_DOLLARS or DIGIT_OR_DOLLAR.match(after) or inside[-1] == "\\":
        return False
    # PaddleX sets a blank at both ends, others none. With one, the signs are those of prices, units or variables.
    blank = inside[0] == " "
    if blank != (inside[-1] == " ") or not MATHEMATICAL.search(inside):
        return False
    if not blank and AFTER_CODE.match(after) and ENDS_CODE.search(inside):
        return False
    if "\\" in inside:  # a command, so a formula, even if it is an interval like "x \in ]0, 1["
        return True
    if WORDS.search(inside) or (SUM.search(inside) and DIGIT.search(text[max(begin - 3, 0) : begin - 1])):
        return False
    next_amount = blank and not EQUATION.search(inside) and NEXT_AMOUNT.match(text, end + 1)
    if AMOUNT.match(inside) and (next_amount or AFTER_AMOUNT.search(inside)):
        return False
    if blank:
        return not BEHIND_AMOUNT.match(inside)
    return not (
        _torn(inside)
        or (inside[0] in "({" and after == inside[0])  # $("#a")$("#b")
        or (NAME.match(after) and not _ends_before_a_name(inside))
    )


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
    return (raised and not ENDS_CODE.search(inside)) or LETTER.fullmatch(inside) is not None


def is_of_formulas(sign: str) -> bool:
    """Whether only formulas have the sign, with marks around it or without."""
    if "\U0001d400" <= sign <= "\U0001d7ff":  # italic, bold, script letters
        return True
    return "\u2200" <= sign <= "\u22ff" and sign not in "\u2212\u2215\u2219\u2022\u22ef\u22c5"  # operators
