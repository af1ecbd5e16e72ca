# SPDX-License-Identifier: Apache-2.0
"""Formulas in Markdown: found before Markdown is read, put back as MathML after it."""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree

import latex2mathml.converter

DISPLAY = re.compile(r"\$\$(.+?)\$\$|\\\[(.+?)\\\]", re.DOTALL)
INLINE = re.compile(r"(?<![\\$\w])\$([^$\n]{1,2000}?)\$(?![\d$])|\\\((.+?)\\\)")
# What a price has not: "$5 and $10" is no formula, "$ x $" and "$n^2$" are.
MATHEMATICAL = re.compile(r"[\\^_={}+<>|*/]|^\s*[A-Za-z]\s*$")
MARK = re.compile("\ue000([0-9]+)\ue001")  # private use: in no document that was read from a page
MAX_LENGTH = 4000


class Formulas:
    def __init__(self) -> None:
        self._found: list[tuple[str, bool]] = []

    def take_out(self, text: str) -> str:
        """``text`` with a mark in place of each formula."""
        text = re.sub("[\ue000\ue001]", "", text)
        text = DISPLAY.sub(lambda match: self._keep(match[1] or match[2], True), text)
        pieces, done, at = [], 0, 0
        while match := INLINE.search(text, at):
            if match[1] is not None and not MATHEMATICAL.search(match[1]):
                at = match.start() + 1  # its closing sign may open the next one
                continue
            pieces += [text[done : match.start()], self._keep(match[1] or match[2], False)]
            done = at = match.end()
        return "".join([*pieces, text[done:]])

    def _keep(self, latex: str, display: bool) -> str:
        self._found.append((latex.strip(), display))
        return f"\ue000{len(self._found) - 1}\ue001"

    def put_back_mathml(self, text: str) -> str:
        return MARK.sub(lambda match: to_mathml(*self._found[int(match[1])]), text)

    def put_back_latex(self, text: str) -> str:
        return MARK.sub(lambda match: self._found[int(match[1])][0], text)


def to_mathml(latex: str, display: bool) -> str:
    """MathML; what cannot be translated is shown as it is."""
    if len(latex) <= MAX_LENGTH:
        try:
            element = latex2mathml.converter.convert_to_element(latex, display="block" if display else "inline")
            for node in element.iter():  # the library writes symbols as character references, and would unescape all
                node.text = html.unescape(node.text) if node.text else node.text
            return ElementTree.tostring(element, encoding="unicode")
        except Exception:  # the library has no common base class for its errors, and fails on some input by accident
            pass
    return f"<code>{html.escape(latex)}</code>"
