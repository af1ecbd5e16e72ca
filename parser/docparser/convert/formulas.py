# SPDX-License-Identifier: Apache-2.0
"""Formulas in Markdown: taken out before the Markdown is read, and put back as MathML afterwards."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from xml.etree import ElementTree

from docparser.convert.names import writable
from docparser.formula_signs import formulas_in

MARK = re.compile("\ue000([0-9]+)\ue001")  # private-use characters, which no parsed page contains
MAX_LENGTH = 4000
# Environments whose rows are lined up at "&". The library knows few of them, shows arguments of others, and numbers
# rows of one that have no number in print. All are one here, and their rows become a table, or Word's.
LINED_UP = r"(?:align(?:ed)?|alignat|alignedat|flalign|split|gather(?:ed)?|eqnarray|multline)\*?"
REWRITTEN: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
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


class Formulas:
    def __init__(self, *, exact: bool = False) -> None:
        """``exact``: of texts as a page says them, which have no formulas, whatever signs are in them."""
        self._exact = exact
        self._found: list[tuple[str, bool]] = []

    def take_out(self, text: str) -> str:
        """``text`` with a mark in place of each formula."""
        text = re.sub("[\ue000\ue001]", "", text)
        pieces, done = [], 0
        for formula in () if self._exact else formulas_in(text):
            pieces += [text[done : formula.start], f"\ue000{len(self._found)}\ue001"]
            self._found.append((formula.latex.strip(), formula.display))
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
