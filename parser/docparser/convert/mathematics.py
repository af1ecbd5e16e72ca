# SPDX-License-Identifier: Apache-2.0
"""Formulas in Markdown: taken out before the Markdown is read, and put back as MathML afterwards."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from xml.etree import ElementTree

import latex2mathml.converter

from docparser.convert.characters import writable
from docparser.convert.formula_scanner import Formula, display_formulas, inline_formulas

MARK = re.compile("\ue000([0-9]+)\ue001")  # private-use characters, which no parsed page contains
MAX_LENGTH = 4000


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

    def find(self, number: str) -> tuple[str, bool]:
        """The LaTeX of the formula with this number in its mark, and whether it stands on a line of its own."""
        return self._found[int(number)] if len(number) < 10 and int(number) < len(self._found) else ("", False)

    def _of(self, match: re.Match[str]) -> tuple[str, bool]:
        return self.find(match[1])


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
    try:
        element = latex2mathml.converter.convert_to_element(latex, display="block" if display else "inline")
        for node in element.iter():  # the library leaves symbols as character references
            node.text = html.unescape(node.text) if node.text else node.text
    except MemoryError:
        raise  # of the child process that this runs in
    except Exception:  # the library has no common base class for its errors, and fails on some input by accident
        return None
    return element
