# SPDX-License-Identifier: Apache-2.0
"""Formulas in Markdown: found, taken out before the Markdown is read, and put back as MathML afterwards.

They are found in one pass, so time grows with the text's length, whatever it holds. A regular expression with an
opening and a closing mark would look for the closing one from every opening one anew, which takes the square of the
length where there is none. Here a search for a mark begins where the last one ended.
``web/static/formula_scanner.js`` does the same in the browser.
"""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Callable, Iterator
from xml.etree import ElementTree

from docparser.convert.names import writable

DISPLAY_MARKS = {"$$": "$$", "\\[": "\\]"}
DISPLAY_OPENS = re.compile(r"\$\$|\\\[")
INLINE_OPENS = re.compile(r"(?<![\\$\w])\$|\\\(")
DIGIT_OR_DOLLAR = re.compile(r"[\d$]")  # after a closing sign: then it is a price's
# Between the signs of "($/t) and ($/kg)": a bracket closes before one opens, or one opens at the end. With a command it
# may be a formula, like the interval "x \in ]0, 1[".
TORN = re.compile(r"[^\\()\[\]{}]*[)\]}][^\\]*|[^\\]*[(\[{]")
# Tells a formula from prices: "$5 and $10" has no formula, "$ x $" and "$n^2$" are formulas.
MATHEMATICAL = re.compile(r"[\\^_={}+<>|*/]|^\s*[A-Za-z]\s*$")
LONGEST_IN_DOLLARS = 2000  # characters
MARK = re.compile("\ue000([0-9]+)\ue001")  # private-use characters, which no parsed page contains
MAX_LENGTH = 4000


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
    # PaddleX sets a blank at both ends, others none. With one, the signs are those of prices, units or variables.
    blank = text[begin] == " "
    if blank != (text[end - 1] == " ") or (not blank and TORN.fullmatch(text, begin, end)):
        return False
    return MATHEMATICAL.search(text[begin:end]) is not None


class Formulas:
    def __init__(self) -> None:
        self._found: list[tuple[str, bool]] = []

    def take_out(self, text: str) -> str:
        """``text`` with a mark in place of each formula."""
        text = re.sub("[\ue000\ue001]", "", text)
        return self._mark(self._mark(text, display_formulas, True), inline_formulas, False)

    def _mark(self, text: str, find: Callable[[str], Iterator[Formula]], display: bool) -> str:
        pieces, done = [], 0
        for formula in find(text):
            pieces += [text[done : formula.start], f"\ue000{len(self._found)}\ue001"]
            # One formula inside another is no LaTeX; the outer one keeps its text.
            latex = MARK.sub(lambda match: self._of(match)[0], formula.latex)
            self._found.append((latex.strip(), display))
            done = formula.end
        return "".join([*pieces, text[done:]])

    def put_back_mathml(self, text: str) -> str:
        return MARK.sub(lambda match: to_mathml(*self._of(match)), text)

    def put_back_latex(self, text: str) -> str:
        return MARK.sub(lambda match: self._of(match)[0], text)

    def put_back_signs(self, text: str) -> str:
        """With each formula between signs that no text has by accident."""
        return self._between(text, (r"\(", r"\)"), (r"\[", r"\]"))

    def put_back_markdown(self, text: str) -> str:
        """With each formula between the dollars that readers of Markdown take for its signs."""
        return self._between(text, ("$", "$"), ("$$", "$$"))

    def find(self, number: str) -> tuple[str, bool]:
        """The LaTeX of the formula with this number in its mark, and whether it stands on a line of its own."""
        return self._found[int(number)] if len(number) < 10 and int(number) < len(self._found) else ("", False)

    def _of(self, match: re.Match[str]) -> tuple[str, bool]:
        return self.find(match[1])

    def _between(self, text: str, inline: tuple[str, str], own_line: tuple[str, str]) -> str:
        def signed(match: re.Match[str]) -> str:
            latex, display = self._of(match)
            before, after = own_line if display else inline
            return before + latex + after

        return MARK.sub(signed, text)


def to_mathml(latex: str, display: bool) -> str:
    """The formula as MathML, or as LaTeX source if it cannot be translated."""
    latex = writable(latex)
    element = mathml_of(latex, display)
    return (
        f"<code>{html.escape(latex)}</code>" if element is None else ElementTree.tostring(element, encoding="unicode")
    )


def mathml_of(latex: str, display: bool) -> ElementTree.Element | None:
    """The formula as MathML, or None if it cannot be translated."""
    if len(latex) > MAX_LENGTH:
        return None
    # Only in child processes: the service itself looks for formulas, and never translates one.
    import latex2mathml.converter

    try:
        element = latex2mathml.converter.convert_to_element(latex, display="block" if display else "inline")
        for node in element.iter():  # the library leaves symbols as character references
            node.text = html.unescape(node.text) if node.text else node.text
    except MemoryError:
        raise  # of the child process that this runs in
    except Exception:  # the library has no common base class for its errors, and fails on some input by accident
        return None
    return element
