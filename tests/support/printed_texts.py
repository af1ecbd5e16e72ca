# SPDX-License-Identifier: Apache-2.0
"""Texts of Markdown, HTML, LaTeX, spreadsheets and bidirectional scripts, made from a seed."""

from __future__ import annotations

import os
import random
import re

from docparser.convert.formulas import Formulas

COUNT = int(os.environ.get("PRINTED_TEXTS", "150"))
LABELS = ("text", "doc_title", "paragraph_title", "abstract_title", "figure_title", "table_title", "chart_title",
          "vision_footnote", "reference_content", "reference", "abstract", "content", "algorithm", "vertical_text",
          "seal", "formula", "display_formula", "inline_formula", "ocr", "table")  # fmt: skip
PRINTED = (
    "List<String>", "<name>", "<b>not bold</b>", "</div>", "<!-- seen -->", "<script>alert(1)</script>", "<table>",
    "<img src=x>", "&amp;", "&lt;", "&#65;", "&copy", "a < b > c", "]]>", "<?php", "2*3*4", "__init__", "_x_", "**",
    "***", "---", "# 12", "## a", "+ 5 degrees", "- 5", "* a", "> 50 percent", "C:\\new\\_folder", "\\*", "\\#",
    "1984. It was",
    "7.", "3)", "12. twelve", "`code`", "```", "~~gone~~", "~", "[a](b)", "![a](b)", "[1]: http://a.example/", "[x]",
    "| a | b |", "|---|", "====", "http://a.example/?a=1&b=2", "<http://a.example>", "\\alpha", "x_1", "\\frac{a}{b}",
    "{", "}", "^2", "\\begin{x}", "$5", "$6", "100 %", "=1+1", "+5", "-2+3", "@x", "'quoted'", "#N/A", "007", "1,234",
    "_x0041_", "=HYPERLINK(\"a\")", "\u202egpj.exe\u202c", "\u200fabc\u200e", "\u05d0\u05d1 12 \u05d2", "\u0627\u0644",
    "中文。", "é", "“q”", "word", "Mill", "and", "of 12", ".", ";", ":", "!", "?", "%", "\"", "'", "&", "<", ">", "/",
)  # fmt: skip


def texts(count: int) -> list[str]:
    """Those that hold formulas are left out: these are more than text."""
    draw = random.Random(33)
    made: list[str] = []
    while len(made) < count:
        text = " ".join(draw.choices(PRINTED, k=draw.randint(1, 7)))
        if Formulas().take_out(text) == text and not re.match(r"</?(?:div|table)\b", text):
            made.append(text)
    return made


def labelled(beside: str = "") -> list[tuple[str, str]]:
    return [(LABELS[number % len(LABELS)], text + beside) for number, text in enumerate(texts(COUNT))]
