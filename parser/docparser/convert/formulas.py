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
# Environments whose rows are lined up at "&". The library knows few of them, shows arguments of others, and numbers
# rows of one that have no number in print. All are one here, and their rows become a table, or Word's.
LINED_UP = r"(?:align(?:ed)?|alignat|alignedat|flalign|split|gather(?:ed)?|eqnarray|multline)\*?"
REWRITTEN = [
    (re.compile(rf"\\begin{{{LINED_UP}}}(?:\s*\[[tbc]\])?(?:(?<=at}})\s*{{[0-9]+}}|(?<=at\*}})\s*{{[0-9]+}})?"),
     r"\\begin{aligned}"),
    (re.compile(rf"\\end{{{LINED_UP}}}"), r"\\end{aligned}"),
    (re.compile(r"\\(begin|end){dcases}"), r"\\\1{cases}"),
    (re.compile(r"(\\begin{array})\s*\[[tbc]\]"), r"\1"),
    (re.compile(r"(\\\\)\s*\[-?[0-9.]+ ?[a-z]{2}\]"), r"\1"),  # room between two rows
    (re.compile(r"(\\\\)|\\&"), lambda match: match[1] or AMPERSAND),
]  # fmt: skip
AMPERSAND = "\ue004"  # one that is printed, while the library reads the formula
LINE_UP = "malignmark"  # where rows are lined up; its text is "&"
HOLDS_ROWS = ("math", "mrow", "mstyle", "mtd")  # elements of any number of others


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
    if element is None:
        return f"<code>{html.escape(latex)}</code>"
    _put_rows_into_tables(element)
    return ElementTree.tostring(element, encoding="unicode")


def _put_rows_into_tables(element: ElementTree.Element) -> None:
    """Browsers know neither line breaks nor marks to line up at (MathML Core)."""
    for node in list(element.iter()):
        parts = list(node)
        if node.tag not in HOLDS_ROWS or not any(_breaks(part) or part.tag == LINE_UP for part in parts):
            continue
        rows: list[list[list[ElementTree.Element]]] = [[[]]]
        for part in parts:
            node.remove(part)
            if _breaks(part):
                rows.append([[]])
            elif part.tag == LINE_UP:
                rows[-1].append([])
            else:
                rows[-1][-1].append(part)
        if rows[-1] == [[]]:  # the last row may end with a break too
            rows.pop()
        columns = max(map(len, rows))
        relations = columns == 3 and all(len(row[1]) <= 1 for row in rows if len(row) > 1)
        sides = ("right", "center", "left") if relations else ("right", "left") if columns > 1 else ("center",)
        table = ElementTree.SubElement(node, "mtable", displaystyle="true")
        for row in rows:
            line = ElementTree.SubElement(table, "mtr")
            for number, cell in enumerate(row):
                ElementTree.SubElement(line, "mtd", columnalign=sides[number % len(sides)]).extend(cell)


def _breaks(part: ElementTree.Element) -> bool:
    return part.get("linebreak") == "newline"


def mathml_of(latex: str, display: bool) -> ElementTree.Element | None:
    """The formula as MathML, or None if it cannot be translated. Rows end with ``mspace linebreak="newline"``, and
    ``malignmark`` stands where they are lined up."""
    if len(latex) > MAX_LENGTH:
        return None
    # Only in child processes: the service itself looks for formulas, and never translates one.
    import latex2mathml.converter

    for pattern, instead in REWRITTEN:
        latex = pattern.sub(instead, latex)
    try:
        element = latex2mathml.converter.convert_to_element(latex, display="block" if display else "inline")
        for node in element.iter():  # the library leaves symbols as character references
            text = html.unescape(node.text) if node.text else node.text
            if node.tag == "mi" and text == "&":
                node.tag = LINE_UP
            node.text = text.replace(AMPERSAND, "&") if text else text
    except MemoryError:
        raise  # of the child process that this runs in
    except Exception:  # the library has no common base class for its errors, and fails on some input by accident
        return None
    return element
