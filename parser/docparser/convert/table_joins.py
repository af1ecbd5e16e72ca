# SPDX-License-Identifier: Apache-2.0
"""Tables that go on on the next page become one, whoever asked for the pages, and in whichever format.

PaddleX joins them where a client asks for ``restructurePages``, in the JSON. Jobs and the batch tool parse pages one by
one, and most clients do not ask. So the formats that are read as a whole join tables by the same signs: one table ends
a page, the other begins the next, and they have as many columns. A header that is printed again is left out.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

from docparser.convert.document import ResultPage
from docparser.convert.parts import AROUND, BEGINS_TABLE, Part
from docparser.html_tables import Cell, Table, read_tables

MOST_HEADERS = 5  # rows that are compared
ENDS = re.compile(rf"</table>{AROUND}\Z", re.IGNORECASE)
TABLE = re.compile(r"<table\b[^<>]*>(.*?)</table>", re.IGNORECASE | re.DOTALL)
ROW = re.compile(r"<tr\b[^<>]*>.*?</tr>", re.IGNORECASE | re.DOTALL)


def goes_on(first: Table, second: Table) -> int | None:
    """How many rows of ``second`` repeat the header of ``first``; None if it is another table.

    Where no cell says that it is a header, the rows are that with which both begin, but empty ones.
    """
    if first.width != second.width or not second.height:
        return None
    headers = {cell.row for cell in first.cells if cell.header}
    same = 0
    for row, (mine, other) in enumerate(zip(_rows(first), _rows(second), strict=False)):
        if mine != other or (headers and row not in headers) or not any(words for _, _, words in mine):
            break
        same += 1
    return min(same, second.height - 1)


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
    """Both once the rows have moved, in the Markdown and in the parts; None where no table goes on."""
    texts = _joined(first.text, second.text)
    parts = _joined_parts(first.written or (), second.written or ())
    if not texts and not parts:
        return None
    before, after = texts or (first.text, second.text)
    above, below = parts or (first.written, second.written)
    pictures = {**second.pictures, **first.pictures}
    return ResultPage(before, pictures, above), dataclasses.replace(second, text=after, written=below)


def _joined_parts(
    first: tuple[Part, ...], second: tuple[Part, ...]
) -> tuple[tuple[Part, ...], tuple[Part, ...]] | None:
    above, below = (first[-1].table if first else None), (second[0].table if second else None)
    repeated = goes_on(above, below) if above and below else None
    if above is None or below is None or repeated is None:
        return None
    return (*first[:-1], dataclasses.replace(first[-1], table=joined_table(above, below, repeated))), second[1:]


def _joined(first: str, second: str) -> tuple[str, str] | None:
    """Both texts once the rows have moved; None where no table goes on."""
    ends, begins = ENDS.search(first[-2000:]), BEGINS_TABLE.match(second[:2000])
    if not ends or not begins:
        return None
    end = len(first) - len(first[-2000:]) + ends.start()
    start = first.lower().rfind("<table", 0, end)
    moving = TABLE.search(second)
    if start < 0 or not moving or "<table" in moving[1].lower():
        return None
    (above,), below = read_tables(first[start:end]) or [Table([])], read_tables(moving[0])
    rows = ROW.findall(moving[1])
    repeated = goes_on(above, below[0]) if len(below) == 1 and below[0].height == len(rows) else None
    if repeated is None:
        return None
    inside = first[:end].rstrip()
    tail = re.search(r"(?:\s*</(?:tbody|thead)>)*\Z", inside, re.IGNORECASE)
    place = tail.start() if tail else len(inside)
    before = first[:place] + "".join(rows[repeated:]) + first[place:]
    rest = re.sub(rf"\A{AROUND}", "", second[moving.end() :], flags=re.IGNORECASE)
    return before, rest


def _rows(table: Table) -> list[list[tuple[int, int, str]]]:
    rows: list[list[tuple[int, int, str]]] = [[] for _ in range(min(table.height, MOST_HEADERS))]
    for cell in table.cells:
        if cell.row < len(rows):
            rows[cell.row].append((cell.column, cell.columns, _words(cell)))
    return rows


def _words(cell: Cell) -> str:
    return "".join(cell.text.split()).casefold()
