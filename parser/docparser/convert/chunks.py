# SPDX-License-Identifier: Apache-2.0
"""A document in chunks for retrieval, as JSON lines: a section's texts together, tables by themselves.

No chunk is longer than asked for, by ``estimate``. A text that is longer is cut between sentences, else
between words; a table between rows, and its header stands in each part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from docparser.convert.parts import NO_OUTLINE, Outline
from docparser.convert.sections import Item, Place, Spot, Spotted, items_of, joined
from docparser.html_tables import Cell, Table
from docparser.places.box import Box

# A character of a script without blanks is about one token; of a word, four letters are; of signs, each one.
WITHOUT_BLANKS = "\u0e00-\u0fff\u1780-\u17ff\u2e80-\u9fff\ua000-\ua4cf\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
PIECES = re.compile(rf"([{WITHOUT_BLANKS}])|([^\W_{WITHOUT_BLANKS}]+)|([^\w\s]|_)")
LETTERS = 4
SENTENCES = re.compile(r"(?<=[.!?;:])\s+|(?<=[。！？；])|\n+")
WORDS = re.compile(r"(?<=\s)|(?<=[\u2e80-\u9fff])")


def estimate(text: str) -> int:
    count = 0
    for piece in PIECES.finditer(text):
        count += -(-len(piece[2]) // LETTERS) if piece[2] else 1
    return count


def write(
    name: str,
    pages: Iterable[tuple[int, dict[str, Any]]],
    tokens: int,
    join: bool,
    sink: BinaryIO,
    outline: Outline = NO_OUTLINE,
) -> None:
    """``pages``: number from 1, and the entry of an answer; ``tokens``: of the longest chunk; ``join``: a table that
    goes on on the next page is one."""
    for number, chunk in enumerate(_chunks(items_of(pages, join, outline), tokens), 1):
        line = {"id": f"{name}-{number:05d}", "document": name, **chunk}
        sink.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")


def _chunks(items: Iterator[Item], most: int) -> Iterator[dict[str, Any]]:
    path: list[tuple[int, Item]] = []  # the open headings with their levels
    texts: list[tuple[Spotted, tuple[Place, ...]]] = []
    told = True  # whether a chunk has said the last heading

    def flush() -> Iterator[dict[str, Any]]:
        nonlocal told
        if not told and not texts:
            for piece in _pieces(Spotted(path[-1][1].text, path[-1][1].spots), most):
                yield _chunk("heading", path, piece, path[-1][1].places)
        told = True
        if texts:
            whole = joined("\n\n", [text for text, _ in texts])
            yield _chunk("text", path, whole, [place for _, places in texts for place in places])
            texts.clear()

    for item in items:
        if item.level:
            deeper = bool(path) and item.level > path[-1][0]
            if texts or not deeper:
                yield from flush()
            path = [(level, heading) for level, heading in path if level < item.level] + [(item.level, item)]
            told = False
            continue
        if item.table is not None:
            if texts:
                yield from flush()
            told = True
            for part in _table_parts(Spotted(item.text, item.spots), item.table, most):
                yield _chunk("table", path, part, item.places)
            continue
        for piece in _pieces(Spotted(item.text, item.spots), most):
            if texts and sum(estimate(text.text) for text, _ in texts) + estimate(piece.text) > most:
                yield from flush()
            texts.append((piece, item.places))
    yield from flush()


def _chunk(kind: str, path: list[tuple[int, Item]], said: Spotted, places: Iterable[Place]) -> dict[str, Any]:
    unique = list(dict.fromkeys(places))
    sources = sorted({place.source for place in unique if place.source})
    agreements = [place.agreement for place in unique if place.agreement is not None]
    return {
        "kind": kind,
        "headings": [" ".join(heading.text.split()) for _, heading in path],
        "text": said.text,
        "tokens": estimate(said.text),
        "doubtful": any(place.doubtful for place in unique),
        **({"sources": sources, "agreement": min(agreements, default=None)} if sources else {}),
        "pages": sorted({place.page for place in unique}),
        "boxes": [
            {
                "page": place.page,
                "label": place.label,
                "box": list(place.box),
                "pageSize": list(place.size),
            }
            for place in unique
        ],
        **({} if said.spots is None else {"places": [_place(spot) for spot in said.spots]}),
    }


def _place(spot: Spot) -> dict[str, Any]:
    return {"page": spot.page, "box": list(spot.box), "start": spot.start, "end": spot.end}


def _pieces(said: Spotted, most: int) -> Iterator[Spotted]:
    """``said`` in parts of at most ``most`` tokens: whole, or by sentences, or by words, or by letters."""
    end = 0
    for piece in _cut(said.text, most, [SENTENCES, WORDS]):
        start = said.text.index(piece, end)  # only blanks are left out between two
        end = start + len(piece)
        yield said.cut(start, end)


def _cut(text: str, most: int, marks: list[re.Pattern[str]]) -> Iterator[str]:
    if estimate(text) <= most:
        if text.strip():
            yield text.strip()
        return
    if not marks:  # a single word
        yield from (text[at : at + most] for at in range(0, len(text), most))
        return
    gathered, size, at = "", 0, 0
    for end in [match.end() for match in marks[0].finditer(text)] + [len(text)]:
        part, at = text[at:end], end
        tokens = estimate(part)
        if size + tokens > most and gathered.strip():
            yield gathered.strip()
            gathered, size = "", 0
        if tokens > most:
            yield from _cut(part, most, marks[1:])
        else:
            gathered, size = gathered + part, size + tokens
    if gathered.strip():
        yield gathered.strip()


def _table_parts(caption: Spotted, table: Table, most: int) -> Iterator[Spotted]:
    """The table in Markdown; a cell that covers several places stands in each of them, so that every row says all."""
    width = table.width  # looks at every cell
    rows = [[Spotted("")] * width for _ in range(table.height)]
    for cell in table.cells:
        said = _cell(cell)
        for row in range(cell.row, cell.row + cell.rows):
            rows[row][cell.column : cell.column + cell.columns] = [said] * cell.columns
    lines = [joined("", [Spotted("| "), joined(" | ", row), Spotted(" |")]) for row in rows]
    rule = Spotted("|" + "---|" * width)
    above = [caption, Spotted("")] if caption.text else []
    head = [*above, lines[0], rule, *lines[1 : table.head]]
    costs = sum(estimate(line.text) for line in head)
    if costs > most // 2:  # a header that leaves no room for rows is said once
        yield from _pieces(_lines(caption, [line for line in head if line is not rule]), most)
        head, costs = [], 0
    part, size, told = list(head), costs, not head  # told: whether a chunk has said the head
    for line in lines[max(1, table.head) :]:
        tokens = estimate(line.text)
        if len(part) > len(head) and size + tokens > most:
            yield _lines(caption, part)
            part, size, told = list(head), costs, True
        if size + tokens <= most:
            part.append(line)
            size += tokens
            continue
        if not told:  # no row fits beside it
            yield _lines(caption, head)
            told = True
        yield from _pieces(_lines(caption, [line]), most)
    if len(part) > len(head) or not told:
        yield _lines(caption, part)


def _cell(cell: Cell) -> Spotted:
    text = " ".join(cell.text.split()).replace("|", "\\|")
    if cell.place is None or not text:
        return Spotted(text)
    page, *sides = cell.place
    return Spotted(text, (Spot(page, Box(*sides), 0, len(text)),))


def _lines(caption: Spotted, lines: list[Spotted]) -> Spotted:
    """Lines of a table; whether places were asked for says its ``caption``, though it may be empty."""
    whole = joined("\n", lines)
    return whole if caption.spots is None else Spotted(whole.text, whole.spots or ())
