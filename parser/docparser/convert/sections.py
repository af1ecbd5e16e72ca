# SPDX-License-Identifier: Apache-2.0
"""A document as items in reading order: headings with their levels, texts, tables, each with its place.

A text knows where on a page its parts stand (``Spotted``), however it is cut and joined.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from docparser.convert.names import writable
from docparser.convert.parts import (
    CAPTIONS,
    PICTURES,
    Levels,
    Outline,
    PageOutline,
    content_blocks,
    plain,
    tables_of,
)
from docparser.convert.table_joins import goes_on, joined_table
from docparser.html_tables import Table
from docparser.places.box import Box


@dataclasses.dataclass(frozen=True)
class Spot:
    """``[start:end]`` of a text stands in ``box`` on page ``page`` (from 1)."""

    page: int
    box: Box
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class Spotted:
    """``spots``: None where nobody asked for places."""

    text: str
    spots: tuple[Spot, ...] | None = None

    def cut(self, start: int, end: int) -> Spotted:
        """``text[start:end]``; a spot that is not whole in it is none."""
        if self.spots is None:
            return Spotted(self.text[start:end])
        inside = (spot for spot in self.spots if start <= spot.start and spot.end <= end)
        return Spotted(self.text[start:end], tuple(_moved(spot, -start) for spot in inside))


def joined(separator: str, parts: Sequence[Spotted]) -> Spotted:
    spots: list[Spot] = []
    at = 0
    for part in parts:
        spots += (_moved(spot, at) for spot in part.spots or ())
        at += len(part.text) + len(separator)
    asked = any(part.spots is not None for part in parts)
    return Spotted(separator.join(part.text for part in parts), tuple(spots) if asked else None)


def _moved(spot: Spot, by: int) -> Spot:
    return dataclasses.replace(spot, start=spot.start + by, end=spot.end + by)


@dataclasses.dataclass(frozen=True)
class Place:
    """A box on page ``page`` (from 1), which is ``size`` (width, height) pixels large; what the answer says of its
    text."""

    page: int
    label: str
    box: Box
    size: tuple[float, float]
    doubtful: bool = False
    source: str | None = None
    agreement: float | None = None


@dataclasses.dataclass(frozen=True)
class Item:
    """A heading if ``level`` is not 0 (1: the document's title), a table if there is one, else a text; a picture has
    none. A table may have a caption as its ``text``. ``spots`` of the text, None where nobody asked; those of a table's
    cells have the cells. ``names_next``: it is the caption of a table that follows."""

    text: str
    places: tuple[Place, ...]
    level: int = 0
    table: Table | None = None
    spots: tuple[Spot, ...] | None = None
    names_next: bool = False

    @property
    def is_picture(self) -> bool:
        return not self.text and self.table is None


def items_of(pages: Iterable[tuple[int, dict[str, Any]]], join: bool, outline: Outline) -> Iterator[Item]:
    """All but pictures. ``pages``: number from 1, and the entry of an answer. With ``join``, a table that goes on on
    the next page is one item. ``outline``: see ``parts.Levels``."""
    held: Item | None = None  # a table that ends a page, or a caption
    for number, entry in pages:
        for item in _items(number, entry, outline.get(number)):
            both = _together(held, item, join) if held is not None else None
            if held is not None and both is None and not held.is_picture:
                yield held
            held = both or item
    if held is not None and not held.is_picture:
        yield held


def _together(held: Item, item: Item, join: bool) -> Item | None:
    """A caption and its table; a table and what it goes on with on the next page."""
    if item.table is None:
        return None
    if held.names_next:
        return dataclasses.replace(item, text=held.text, places=held.places + item.places, spots=held.spots)
    if not join or held.table is None or held.places[-1].page + 1 != item.places[0].page or item.text:
        return None
    repeated = goes_on(held.table, item.table)
    if repeated is None:
        return None
    table = joined_table(held.table, item.table, repeated)
    return dataclasses.replace(held, table=table, places=held.places + item.places)


def _items(number: int, entry: dict[str, Any], outline: PageOutline | None) -> Iterator[Item]:
    pruned, levels = entry["prunedResult"], Levels(writable(entry["markdown"]["text"]), outline)
    size = float(pruned.get("width") or 0), float(pruned.get("height") or 0)
    found = {said["block_id"]: said for said in entry["places"]} if "places" in entry else None
    names_next = waits = False  # of the block before: it is a caption; a picture without a caption above it
    for index, block in content_blocks(entry):
        if not block.content and block.label not in PICTURES:
            continue
        named = block.label in CAPTIONS and (not waits or block.label == "table_title")
        waits, names_next = block.label in PICTURES and not names_next, named
        said = block.doubtful, block.source, block.agreement
        places = tuple(Place(number, block.label, box, size, *said) for box in block.boxes)
        said_of = None if found is None else found.get(block.id, {})
        tables, after = tables_of(block)
        for table in tables:
            table = plain(table, exact=block.exact)
            placed = _with_boxes(table, said_of, number) if len(tables) == 1 else table
            yield Item("", places, table=placed, spots=None if said_of is None else ())
        if text := after if tables else block.content:
            raw = pruned["parsing_res_list"][index]["block_content"]
            spots = None if said_of is None else _spots(text, raw, said_of, number)
            yield Item(text, places, levels.of(block.label, text, index), spots=spots, names_next=names_next)
        elif not tables:
            yield Item("", places)


def _spots(text: str, content: str, said: dict[str, Any], page: int) -> tuple[Spot, ...]:
    """Of ``text``, which is a part of a block's ``content``, by the places that are said of it."""
    before = content.find(text)
    if before < 0:
        return ()
    return tuple(
        Spot(page, Box(*one["bbox"]), one["start"] - before, one["end"] - before)
        for one in said.get("lines") or said.get("words") or ()
        if before <= one["start"] < one["end"] <= before + len(text)
    )


def _with_boxes(table: Table, said: dict[str, Any] | None, page: int) -> Table:
    """The table, whose cells know where they stand."""
    boxes = {(cell["row"], cell["column"]): (page, *cell["bbox"]) for cell in (said or {}).get("cells", ())}
    return Table([dataclasses.replace(cell, place=boxes.get((cell.row, cell.column))) for cell in table.cells])
