# SPDX-License-Identifier: Apache-2.0
"""Formulas are found as regular expressions found them, but in time that grows with the text's length."""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Callable

import pytest

from docparser.convert.formulas import Formulas
from docparser.formula_signs import (
    between_brackets,
    between_dollars,
    between_two_dollars,
    display_formulas,
    formulas_in,
    inline_formulas,
)
from docparser.html_tables import read_tables
from docparser.places.atoms import atoms_of
from tests.support.printed_texts import DOLLARS

# What the scanner took the place of: right, and quadratic.
DISPLAY = re.compile(r"(?<!\$)\$\$(?!\$)(.+?)\$\$|(?<![\\^])\\\[(.+?)\\\]", re.DOTALL)
INLINE = re.compile(r"(?<![\\$\w])\$([^$\n]{1,2000}?)\$|(?<!\\)\\\((.+?)\\\)")
Found = list[tuple[int, int, str]]


def by_expression(text: str, expression: re.Pattern[str], dollars: Callable[[int, int], bool]) -> Found:
    """``dollars``: whether what stands between two is a formula."""
    found, at = [], 0
    while match := expression.search(text, at):
        at = match.end()
        if dollars(*match.span(1)) if match[1] is not None else between_brackets(text, *match.span(2)):
            found.append((match.start(), match.end(), match[1] or match[2]))
        elif match[1] is not None:
            at = match.start() + 1
    return found


def display_by_expression(text: str) -> Found:
    whole = len(text) - len(text.lstrip()), len(text.rstrip())
    return by_expression(text, DISPLAY, lambda begin, end: between_two_dollars(text, begin, end, whole))


def inline_by_expression(text: str) -> Found:
    found = by_expression(text, INLINE, lambda begin, end: between_dollars(text, begin, end))
    return found if not re.search(r"(?<!\\)\\[1-9]", text) else [one for one in found if text[one[0]] == "$"]


PIECES = ("$", "$$", "\\[", "\\]", "\\(", "\\)", "\\", "\n", "5", "x", "a b", "=", " ", "é", "_", "(", "]", "}", "^",
          "ab cd")  # fmt: skip


def test_formulas_are_those_of_the_expressions():
    draw = random.Random(12)
    texts = ["".join(pieces) for length in range(4) for pieces in itertools.product(PIECES, repeat=length)]
    texts += ["".join(draw.choices(PIECES, k=draw.randint(4, 40))) for _ in range(2_000)]
    texts += ["$" + "x=" * 999 + end for end in ("$", "x$", "xx$", "xxx$")]
    for text in texts:
        shown = [(f.start, f.end, f.latex) for f in display_formulas(text)]
        assert shown == display_by_expression(text), repr(text)
        found = [(f.start, f.end, f.latex) for f in inline_formulas(text)]
        assert found == inline_by_expression(text), repr(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("$ x $ and $n^2$", [" x ", "n^2"]),
        ("A unit costs $5 and the rate  $ r $ rises to $7", [" r "]),
        ("($x_1$), [$ a+b $]", ["x_1", " a+b "]),
        ("on $f(x)=[a,b)$", ["f(x)=[a,b)"]),
        (r"$\left[0,1\right)$ and $x\in]0,1[$", [r"\left[0,1\right)", r"x\in]0,1["]),
        ("$ a) x^2=4 $", [" a) x^2=4 "]),
        ("costs $6 and $x^2$", ["x^2"]),
        ("Prices are in $/t or $/kg.", []),
        ("Cost ($/kWh) and yield ($/ha)", []),
        ("Price in $/t ($/kg)", []),
        ("[$=1]/[$=2]", []),
        ("cp $HOME/a $DEST/b", []),
        ("cp ${HOME}/a ${DEST}/b", []),
        ("{$a_1}, {$a_2}", []),
        ("$a = $b + $c;", []),
        ("PATH=$HOME/bin:$PATH", []),
        ("for($i=0;$i<count($a);$i++)", []),
        ("$total=$price+$tax;", []),
        ("$user_id=$row_id; {$a_b}{$c_d} ${A_B}${C_D}", []),
        ("$5/unit (in US$)", []),
        ("paid $5/h, later in US$.", []),
        ("between $5 and $10, or $5-$10", []),
        ("the $n$th at $90^\\circ$C, $10^3$m of $x_i$s", ["n", "90^\\circ", "10^3", "x_i"]),
        ("$x=1$时 and $x_1=(0,1]$.", ["x=1", "x_1=(0,1]"]),
    ],
)
def test_dollars_of_units_and_variables_are_no_signs_of_formulas(text: str, found: list[str]):
    assert [formula.latex for formula in inline_formulas(text)] == found
    said = {text[atom.start : atom.end] for atom in atoms_of(text) if not atom.word}
    assert said == {f"${latex}$" for latex in found} | ({"时"} & set(text)), "places and formats have the same"


@pytest.mark.parametrize("text", DOLLARS)
def test_prices_programs_and_expressions_have_no_formulas(text: str):
    assert formulas_in(text) == []
    assert [formula.latex for formula in formulas_in(text + " at $x_1^2$")] == ["x_1^2"], "beside one that is"


FORMULAS = (
    " $ x^2 $ ", "$ x $", "where  $ n_i $ is", "$n^2$", r"$ 5 \mu m $ 3", "x  $ < $ 0.05", " $ a_{max} = 3 $ ",
    "$ V = abc $", "$ 2n+1 $", "$ 3/4 $ of", "$ 2 + 3 = 5 $", "$ 0 < x < 1 $", "$ |x| $", "$ 10^3 $", "$ 10^{3} $ 5",
    " $$  a + b  $$ ", r"$$ \frac{a}{b} $$ and", r"$$\text{a long word} = x; y$$", "$$y_1$$", "$$ H 2 O $$",
    "$$ AB $$", "is $$ x = 2 $$ here", "$$\nx = 1\n$$", r"\(x\)", r"\(AB\)", r"\(a, b\)", r"\(f(x)\)", r"\(90\%\)",
    r"\( x \in [0, 1] \)", r"\[ a + b \]", r"\(\|x\|\)", r"\(=\)", r"\(*\)", r"\(^{*}\)", r"\(-x\)",
    r"\[ \begin{matrix} 1 & 2 \\1 & 0 \end{matrix} \]", r"\(\delta\)", r"\(\beta\) \(\sin x\)", r"\(\omega\)",
    r"\(S = \{a, b\}\)", "$ a) x^2=4 $", "the $n$th", r"$90^\circ$C", "$x=1$时", "$v=1$(m)", r"$\left[0,1\right)$",
    "$ E = mc^2 $", r"$ 1,500 \pm 300 $", "$ 5x + 3y = 7 $, 8", r"$\alpha$-$\beta$", r"$x_1,\ldots,x_n$", "$ A = B $",
    "$ f(x) = ax + b $", "$ d/dt $", "$x' = 1$", "Table 5 $ x_1 $", "$$ E = mc^2, $$ where", r"\[\int_0^1 x\,dx\]",
    "$ F = ma $", "$$ F = ma $$ and", " $ mg - T = ma $ ", r"\(-kx\)", r"\( -mgh \)", r"\(\|Ax\|_2\)",
    r"\(\lambda\|Ax\|^2\)", r"\(D(p\|q)\)", " $ a^2 + 2ab + b^2 $ ", " $ 2x + ab = 5 $ ", " $ x = 1, xy = 2 $ ",
    " $ mv / 2 $ ", r'\(\text{\"a\"}\)', r"\(n!\)", r"\(1/2\)", r"\(10\%\)", r"\(ABC\)", r"\(p<0.05\)",
    r"\( x_1, \ldots, x_n \)", r"\[ f : A \to B \]", " $ f: A = B $ ", " $ y = kx + b $ ", " $ ax^2 + bx + c = 0 $ ",
    " $ O(n) = n/2 $ ", " $ P(A|B) $ ", " $ A * B $ ", " $ t_{1/2} $ ", " $$ y = kx + b $$ where",
    "so $$ x^2 $$, then", " $$ 1 + 1 = 2 $$ ", r"\(H_2O\)", r"\(CO_2\)", " $ CO_2 $ ", "$x<y$", "$i=1,2$", "($a+b$)",
    " $ 5! = 120 $ ", " $ 2^n $ ", " $ {}^{3} $ text", r"\(\frac{1}{2}\)\(x\)", "$p = 0.05$", "$R^2=0.9$; $p<0.1$",
    "$N=5$ $M=6$",
)  # fmt: skip


@pytest.mark.parametrize("text", FORMULAS)
def test_what_paddlex_and_the_vlm_write_stays_a_formula(text: str):
    assert formulas_in(text)


def test_formulas_of_both_kinds_stand_in_order_and_none_inside_another():
    text = r"a $$x_1$$ $y$ \(p $$q$$ r\) \[z\] $5"
    found = formulas_in(text)
    assert [(text[slice(*formula.span())], formula.latex, formula.display) for formula in found] == [
        ("$$x_1$$", "x_1", True),
        ("$y$", "y", False),
        (r"\(p $$q$$ r\)", "p q r", False),
        (r"\[z\]", "z", True),
    ]


def seconds(work: Callable[[], object]) -> float:
    """Processor time of the fastest of three runs."""
    times = []
    for _ in range(3):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def growth(work: Callable[[int], Callable[[], object]], size: int) -> float:
    """How many times as long eight times the size takes: about 8 if time is linear in it, 64 if it is quadratic."""
    return seconds(work(8 * size)) / seconds(work(size))


TEXTS = ["\\[a1 ", "\\(a1 ", "$$a ", "$a1 ", "\\[ \\( ", "$ $$ ", "\\(\n", "\\[\\]", "\\(\\)", "$ x",
         "\\\\[", "$a)=(", "$$a;", "\\[.*\\]", "$ +  "]  # fmt: skip


@pytest.mark.parametrize("piece", TEXTS)
def test_time_grows_with_the_length(piece):
    """The expressions take over 40 times as long for eight times `\\[a1 `."""
    assert growth(lambda size: lambda: Formulas().take_out(piece * size), 3_000) < 20


def test_the_measure_sees_what_is_quadratic():
    assert growth(lambda size: lambda: DISPLAY.sub("", "\\[a1 " * size), 400) > 30


TABLES = {
    "wide": lambda size: "<table><tr>" + "<td rowspan=200 colspan=200>a" * size,
    "high": lambda size: "<table>" + "<tr><td rowspan=200 colspan=200>a" * size,
    "rows below wide cells": lambda size: "<table><tr>" + "<td rowspan=200 colspan=200>a" * 100 + "<tr><td>b" * size,
    "stairs": lambda size: "<table>" + "<tr><td rowspan=2>a<td colspan=3>b" * size,
    "many": lambda size: "<table><td colspan=200>a</table>" * size,
    "long numbers": lambda size: "<table><td colspan=" + "9" * 50 * size + ">a",
}


@pytest.mark.parametrize("kind", TABLES)
def test_time_for_tables_grows_with_the_text(kind):
    assert growth(lambda size: (lambda text: lambda: read_tables(text))(TABLES[kind](size)), 150) < 20


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_has_no_more_places_than_its_text_can_fill(kind):
    """Of 270 such cells, the reader made 10 million places, and the workbook as many objects."""
    for table in read_tables(TABLES[kind](1000)):
        rows, columns = {cell.row for cell in table.cells}, {cell.column for cell in table.cells}
        assert (table.height, table.width) == (len(rows), len(columns))
        assert sum(cell.rows * cell.columns - 1 for cell in table.cells) <= 100_000


def test_spans_beyond_the_bound_are_one():
    """A table whose spans would cover more than the bound keeps its cells; the last of them lose their spans."""
    grid = "<tr>" + "<td>x" * 200
    table = "<table>" + ("<tr><td rowspan=200 colspan=200>a" + grid * 200) * 4
    (read,) = read_tables(table)
    spans = [cell for cell in read.cells if cell.rows * cell.columns > 1]
    assert 0 < sum(cell.rows * cell.columns for cell in spans) <= 100_004
    assert sum(cell.text == "a" for cell in read.cells) == 4
    places = {
        (cell.row + row, cell.column + column)
        for cell in read.cells
        for row in range(cell.rows)
        for column in range(cell.columns)
    }
    assert len(places) == sum(cell.rows * cell.columns for cell in read.cells), "no two cells overlap"
