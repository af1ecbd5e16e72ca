# SPDX-License-Identifier: Apache-2.0
"""Formulas: found in a text, turned into MathML."""

from __future__ import annotations

from xml.etree import ElementTree

from docparser.convert.formulas import Formulas, to_mathml
from tests.fuzz.choices import Choices
from tests.fuzz.verdict import Broken

WORDS = (
    *("$", "$$", "\\[", "\\]", "\\(", "\\)", "\\frac", "{", "}", "^", "_", "&", "\\\\", "\\left(", "\\right)"),
    *("\\sqrt[", "\\begin{matrix}", "\\end{matrix}", "\\begin{array}{cc}", "\\end{array}", "\\text{"),
    *("\\operatorname{", "\\hline", "\\href{javascript:alert(1)}{", "\\style{", "\\color{red}", "\\mathrm", "\\limits"),
    *("\\over", "\\prime", "'", "x", "\\def\\a{\\a\\a}", "\\newcommand", "\\overset", "\\underbrace{", "\\int_"),
    *("\\sum^", "\\ ", "~", "%", "<", "<b>"),
)
GROWTH, LEAST = 400, 20_000  # characters of MathML for one of LaTeX; and as many are always allowed


def target(data: bytes) -> None:
    choices = Choices(data)
    if choices.chance(2):
        convert(choices.text(WORDS, longest=4000), choices.chance(2))
    else:
        find(choices.text(WORDS))


def convert(latex: str, display: bool) -> None:
    mathml = to_mathml(latex, display)
    if len(mathml) > LEAST + GROWTH * len(latex):
        raise Broken("MathML is not much longer than its formula")
    if mathml.startswith("<math"):
        try:
            ElementTree.fromstring(mathml)
        except (ElementTree.ParseError, UnicodeEncodeError) as error:
            raise Broken("MathML is XML") from error
    elif not mathml.startswith("<code>") or "<" in mathml[6:-7]:
        raise Broken("what is no MathML is escaped source")


def find(text: str) -> None:
    formulas = Formulas()
    back = formulas.put_back_latex(formulas.take_out(text))
    if len(back) > len(text):
        raise Broken("formulas come back as they were taken out")
    formulas.put_back_mathml(formulas.take_out(text))


def seeds() -> list[bytes]:
    return [bytes(range(60)), b"\1" + bytes(range(60, 120)), b"\0\1" + bytes(range(100, 160)), bytes([2, 23] * 30)]
