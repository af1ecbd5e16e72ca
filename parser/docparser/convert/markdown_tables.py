# SPDX-License-Identifier: Apache-2.0
"""The tables in the Markdown of a page or a block, whether they are written as HTML or with pipes."""

from __future__ import annotations

import dataclasses

from docparser.convert.html_tables import Table, read_tables
from docparser.convert.mathematics import Formulas
from docparser.convert.to_html import markdown_html


def find_tables(text: str) -> list[Table]:
    """Every table in ``text`` in order; formulas in cells stand as LaTeX without their dollar signs."""
    formulas = Formulas()
    return [
        Table([dataclasses.replace(cell, text=formulas.put_back_latex(cell.text)) for cell in table.cells])
        for table in read_tables(markdown_html(formulas.take_out(text)))
    ]
