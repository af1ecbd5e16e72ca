# SPDX-License-Identifier: Apache-2.0
"""Tables that go on on the next page become one, whoever asked for the pages, and in whichever format.

PaddleX joins them where a client asks for ``restructurePages``, in the JSON. Jobs and the batch tool parse pages one by
one, and most clients do not ask. So the formats that are read as a whole join tables by the same signs: one table ends
a page, the other begins the next, and they have as many columns. A header that is printed again is left out. The parts
of a page decide, for PaddleX's HTML knows no heads; the Markdown follows where it has the same tables.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

from docparser.convert.document import ResultPage
from docparser.convert.parts import AROUND, BEGINS_TABLE, Part
from docparser.html_tables import Cell, Table, read_tables

OPENS = re.compile(r"<table\b", re.IGNORECASE)
ENDS = re.compile(rf"</table>{AROUND}\Z", re.IGNORECASE)
TABLE = re.compile(r"<table\b[^<>]*>(.*?)</table>", re.IGNORECASE | re.DOTALL)
ROW = re.compile(r"<tr\b[^<>]*>.*?</tr>", re.IGNORECASE | re.DOTALL)
NEAR = 2000  # characters at a page's end or beginning, in which a table ends or begins


def goes_on(first: Table, second: Table) -> int | None:
    """How many rows of ``second`` repeat the header of ``first``; None if it is another table.

    A table with a header of its own is another one. Where neither is known to have one, the first row may be one; more
    rows that are alike are rows of a form.
    """
    if first.width != second.width or not second.height:
        return None
    most = max(first.head, second.head) or _least_head(second)
    same = 0
    for mine, other in zip(_rows(first, most), _rows(second, most), strict=False):
        if mine != other or not any(words for _, _, words in mine):
            break
        same += 1
    if same < second.head:
        return None
    same = min(same, second.height - 1)
    while reaching := [cell.row for cell in second.cells if cell.row < same < cell.row + cell.rows]:
        same = min(reaching)  # a cell that reaches into a row that stays cannot go
    return same


def _least_head(table: Table) -> int:
    """How many rows a header has that nothing tells from other rows: one, or two below a cell above several columns."""
    first = [cell for cell in table.cells if cell.row == 0]
    two = max(cell.rows for cell in first) == 2 and any(cell.columns > 1 for cell in first)
    return 2 if two else 1


def joined_table(first: Table, second: Table, repeated: int) -> Table:
    """The rows of both, without the first ``repeated`` of ``second``."""
    moved = [
        dataclasses.replace(cell, row=cell.row - repeated + first.height)
        for cell in second.cells
        if cell.row >= repeated
    ]
    return Table(first.cells + moved)


def joined_pages(pages: Iterable[tuple[int, ResultPage]]) -> Iterator[ResultPage]:
    """The pages with each table whole on the page where it begins. ``pages``: number and page; a table goes on only on
    the page of the next number."""
    held: list[ResultPage] = []  # a page whose last table may go on, and those that it took in, which are empty
    before = 0
    for number, page in pages:
        follows, before = number == before + 1, number
        if held and follows and (both := _joined_pages(held[0], page)):
            held[0], page = both
            if not page.text.strip() and not page.written:
                held.append(page)
                continue
        yield from held
        held = [page]
    yield from held


def _joined_pages(first: ResultPage, second: ResultPage) -> tuple[ResultPage, ResultPage] | None:
    """Both once the rows have moved, in the parts and in the Markdown; None where no table goes on."""
    if not first.parts or not second.parts:
        return None
    last, begins = first.parts[-1], second.parts[0]
    above, below = _last_table(last), _first_table(begins)
    repeated = goes_on(above, below) if above and below else None
    if above is None or below is None or repeated is None:
        return None
    texts = _moved_rows(first.text, second.text, below, repeated)
    if last.table is not None and begins.table is not None:
        whole, rest = dataclasses.replace(last, table=joined_table(above, below, repeated)), None
    elif moved := _moved_rows(last.text, begins.text, below, repeated):  # of a VLM that was asked for Markdown
        whole, rest = dataclasses.replace(last, text=moved[0]), dataclasses.replace(begins, text=moved[1])
    else:
        return None
    before, after = texts or (first.text, second.text)
    parts = (*first.parts[:-1], whole), (*([rest] if rest and rest.text else []), *second.parts[1:])
    pictures = {**second.pictures, **first.pictures}
    return ResultPage(before, pictures, parts[0]), dataclasses.replace(second, text=after, written=parts[1])


def _last_table(part: Part) -> Table | None:
    """That with which the part ends."""
    if not part.markdown:
        return part.table
    ends = ENDS.search(part.text[-NEAR:])
    begins = [found.start() for found in OPENS.finditer(part.text)] if ends else []
    tables = read_tables(part.text[begins[-1] :]) if begins else []
    return tables[0] if tables else None


def _first_table(part: Part) -> Table | None:
    """That with which the part begins."""
    if not part.markdown:
        return part.table
    found = TABLE.search(part.text) if BEGINS_TABLE.match(part.text[:NEAR]) else None
    tables = read_tables(found[0]) if found else []
    return tables[0] if len(tables) == 1 else None


def _moved_rows(first: str, second: str, below: Table, repeated: int) -> tuple[str, str] | None:
    """Both texts once the rows of ``below``, with which ``second`` begins, have moved, but the first ``repeated``. None
    where the first does not end with a table or the second does not begin with this one."""
    ends, begins = ENDS.search(first[-NEAR:]), BEGINS_TABLE.match(second[:NEAR])
    moving = TABLE.search(second) if ends and begins else None
    if not ends or not moving or OPENS.search(moving[1]):
        return None
    tables, rows = read_tables(moving[0]), ROW.findall(moving[1])
    if [(table.height, table.width) for table in tables] != [(len(rows), below.width)] or below.height != len(rows):
        return None
    inside = first[: len(first) - len(first[-NEAR:]) + ends.start()].rstrip()
    if not OPENS.search(inside):
        return None
    tail = re.search(r"(?:\s*</(?:tbody|thead)>)*\Z", inside, re.IGNORECASE)
    place = tail.start() if tail else len(inside)
    before = first[:place] + "".join(rows[repeated:]) + first[place:]
    rest = re.sub(rf"\A{AROUND}", "", second[moving.end() :], flags=re.IGNORECASE)
    return before, rest


def _rows(table: Table, most: int) -> list[list[tuple[int, int, str]]]:
    rows: list[list[tuple[int, int, str]]] = [[] for _ in range(min(table.height, most))]
    for cell in table.cells:
        if cell.row < len(rows):
            rows[cell.row].append((cell.column, cell.columns, _words(cell)))
    return rows


def _words(cell: Cell) -> str:
    return "".join(cell.text.split()).casefold()
