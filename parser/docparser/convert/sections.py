# SPDX-License-Identifier: Apache-2.0
"""A document as items in reading order: headings with their levels, texts, tables, each with its place."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import Any

from docparser.convert.document import Block, Box, blocks_of
from docparser.convert.html_tables import Table
from docparser.convert.safe_text import writable
from docparser.convert.table_joins import goes_on, joined_table
from docparser.convert.to_html import find_tables

# Left out of the Markdown by default (markdown_ignore_labels in config/pipelines), so here as well.
DECORATION = ("number", "footnote", "header", "header_image", "footer", "footer_image", "aside_text")
TITLES = {"doc_title": 1, "paragraph_title": 2, "abstract_title": 2, "reference_title": 2, "content_title": 2}
CAPTIONS = ("table_title", "figure_title", "chart_title")
HEADING = re.compile(r"^(#{1,6})\s+(.+)$", re.MULTILINE)
NUMBERED = re.compile(r"(\d{1,3}(?:\.\d{1,3}){0,3})[.\s]")


@dataclasses.dataclass(frozen=True)
class Place:
    """A box on page ``page`` (from 1), which is ``size`` (width, height) pixels large; whether its text is doubtful."""

    page: int
    label: str
    box: Box
    size: tuple[float, float]
    doubtful: bool = False


@dataclasses.dataclass(frozen=True)
class Item:
    """A heading if ``level`` is not 0 (1: the document's title), a table if there is one, else a text. A table may have
    a caption as its ``text``."""

    text: str
    places: tuple[Place, ...]
    level: int = 0
    table: Table | None = None


def items_of(pages: Iterable[tuple[int, dict[str, Any]]], join: bool) -> Iterator[Item]:
    """``pages``: number from 1, and the entry of an answer. With ``join``, a table that goes on on the next page is one
    item."""
    held: Item | None = None  # a table that ends a page, or a caption
    for number, entry in pages:
        for item in _items(number, entry):
            both = _together(held, item, join) if held is not None else None
            if held is not None and both is None:
                yield held
            held = both or item
    if held is not None:
        yield held


def _is_caption(item: Item) -> bool:
    return item.table is None and item.places[-1].label in CAPTIONS


def _together(held: Item, item: Item, join: bool) -> Item | None:
    """A caption and its table; a table and what it goes on with on the next page."""
    if item.table is None:
        return None
    if _is_caption(held):
        return dataclasses.replace(item, text=held.text, places=held.places + item.places)
    if not join or held.table is None or held.places[-1].page + 1 != item.places[0].page or item.text:
        return None
    repeated = goes_on(held.table, item.table)
    if repeated is None:
        return None
    table = joined_table(held.table, item.table, repeated)
    return dataclasses.replace(held, table=table, places=held.places + item.places)


def _items(number: int, entry: dict[str, Any]) -> Iterator[Item]:
    pruned = entry["prunedResult"]
    ignored = (pruned.get("model_settings") or {}).get("markdown_ignore_labels") or DECORATION
    size = float(pruned.get("width") or 0), float(pruned.get("height") or 0)
    levels = _levels(writable(entry["markdown"]["text"]))
    for block in blocks_of(pruned):
        if block.label in ignored:
            continue
        places = tuple(Place(number, block.label, box, size, block.doubtful) for box in block.boxes)
        tables = find_tables(block.content) if block.label in ("table", "chart") else []
        for table in tables:
            yield Item("", places, table=table)
        if not tables and (text := _text(block)):
            level = levels.get(_key(text)) or _level(block.label, text) if block.label in TITLES else 0
            yield Item(text, places, level)


def _text(block: Block) -> str:
    """Formulas keep their dollar signs."""
    return re.sub(r"^#{1,6}\s+|</?(?:div|span|center|img|html|body)\b[^<>]*>", "", block.content.strip()).strip()


def _levels(markdown: str) -> dict[str, int]:
    """The levels that PaddleX gave the headings of a page."""
    return {_key(match[2]): len(match[1]) for match in HEADING.finditer(markdown)}


def _level(label: str, text: str) -> int:
    numbered = NUMBERED.match(text) if label == "paragraph_title" else None
    return TITLES[label] + (numbered[1].count(".") if numbered else 0)


def _key(text: str) -> str:
    return "".join(text.split()).casefold()
