# SPDX-License-Identifier: Apache-2.0
"""A page as parts in reading order, from its blocks: what every format but Markdown and JSON is written from.

What the VLM read is text, whatever signs are in it. So no part is read as Markdown, but those of a VLM that was asked
to write Markdown (``promptLabel`` ``document``), and of a page that has no blocks.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from markdown_it import MarkdownIt

from docparser.convert.blocks import Block, all_blocks, heads_of, unmarked
from docparser.convert.formulas import Formulas
from docparser.html_tables import Cell, Table, TableReader
from docparser.outline import HEADING, TITLES, Title, key, levels, side
from docparser.places.box import Box

# Left out of the Markdown by default (markdown_ignore_labels in config/pipelines), so of the others as well.
DECORATION = ("number", "footnote", "header", "header_image", "footer", "footer_image", "aside_text")
CAPTIONS = ("table_title", "figure_title", "chart_title")
# Labels of pictures, and the setting with which PaddleX writes the text in one too.
PICTURES = {"image": "use_ocr_for_image_block", "header_image": "use_ocr_for_image_block",
            "footer_image": "use_ocr_for_image_block", "chart": "use_ocr_for_image_block",
            "seal": "use_seal_recognition"}  # fmt: skip
NUMBERED = re.compile(r"(\d{1,3}(?:\.\d{1,3}){0,3})[.\s]")
AROUND = r"(?:\s|</?(?:div|html|body|center)\b[^<>]*>)*"  # what PaddleX writes around a table
BEGINS_TABLE = re.compile(rf"\A{AROUND}<table\b", re.IGNORECASE)
BOX_IN_NAME = re.compile(r"_box((?:_-?[0-9]+){4})\.[a-z]+\Z")  # PaddleX names a picture by its box
PICTURE = re.compile("\ue002([^\ue003]*)\ue003")  # in the text of a table's cell

PageOutline = Mapping[int, int]  # the levels of headings by their index among a page's blocks
Outline = Mapping[int, PageOutline]  # by the numbers of pages
NO_OUTLINE: Outline = MappingProxyType({})  # each page by itself


@dataclasses.dataclass(frozen=True)
class Part:
    """A heading if ``level`` is not 0 (1: the document's title), a table, a picture (its path) or a text. ``text`` has
    formulas with their signs. ``share`` is how much of the page's width a picture has, in per cent. A picture that was
    not sent is a part without all these. ``exact``: see ``Block``."""

    label: str
    text: str = ""
    level: int = 0
    table: Table | None = None
    picture: str = ""
    share: int = 0
    markdown: bool = False
    exact: bool = False

    def renamed(self, names: Mapping[str, str]) -> Part:
        """With other paths of pictures: ``names``, from old to new."""

        def cell(text: str) -> str:
            return PICTURE.sub(lambda match: f"\ue002{names.get(match[1], match[1])}\ue003", text)

        table = _each(self.table, cell) if self.table else None
        return dataclasses.replace(self, picture=names.get(self.picture, self.picture), table=table)


def parts_of(entry: Mapping[str, Any], pictures: Iterable[str], outline: PageOutline | None = None) -> tuple[Part, ...]:
    """``entry`` is that of a page in an answer, ``pictures`` the paths of its pictures. ``outline``: see ``Levels``."""
    if entry.get("prunedResult") is None:
        return of_markdown(entry["markdown"]["text"])
    return tuple(_parts(entry, pictures, outline))


def of_markdown(text: str) -> tuple[Part, ...]:
    """Of a page that has no blocks."""
    return (Part("text", unmarked(text), markdown=True),)


def content_blocks(entry: Mapping[str, Any]) -> Iterator[tuple[int, Block]]:
    """The blocks of a page that are its content, with their indices: without those that the Markdown leaves out, and
    with the number of a formula where the Markdown has it."""
    pruned = entry["prunedResult"]
    ignored = (pruned.get("model_settings") or {}).get("markdown_ignore_labels")
    left_out = ("formula_number", *(DECORATION if ignored is None else ignored))
    blocks = list(all_blocks(pruned, heads_of(entry)))
    for index, (block, after) in enumerate(itertools.zip_longest(blocks, blocks[1:])):
        if after and block.label in ("display_formula", "formula"):
            said = _with_number(block.content, after, entry["markdown"]["text"])
            block = dataclasses.replace(block, content=said)
        if block.label not in left_out:
            yield index, block


def _parts(entry: Mapping[str, Any], pictures: Iterable[str], outline: PageOutline | None) -> Iterator[Part]:
    pruned, levels = entry["prunedResult"], Levels(entry["markdown"]["text"], outline)
    settings = pruned.get("model_settings") or {}
    paths = Paths(pictures)
    across = side(pruned.get("width"))
    for number, block in content_blocks(entry):
        content = block.content
        if block.label in PICTURES:
            box = block.boxes[0]
            path = paths.of_box(box)
            if path or not content:
                share = max(1, int(100 * box.width / across)) if path and across else 0
                yield Part(block.label, picture=path, share=share)
            if path and not settings.get(PICTURES[block.label]):
                continue
        if not content:
            continue
        tables, after = tables_of(block)
        for table in tables:
            yield Part(block.label, table=_each(table, paths.in_cell), exact=block.exact)
        if tables:
            content = after
        if content:
            level = levels.of(block.label, content, number)
            yield Part(block.label, content, level, markdown=block.markdown and not level, exact=block.exact)


class Paths:
    """The paths of a page's pictures by their boxes. Jobs give the pictures other names, and the boxes stay in them."""

    def __init__(self, pictures: Iterable[str]) -> None:
        self._all = frozenset(pictures)
        self._by_place: dict[str, list[str]] = {}
        for path in pictures:
            if place := BOX_IN_NAME.search(path):
                self._by_place.setdefault(place[1], []).append(path)

    def of_box(self, box: Box) -> str:
        """Of pages that were joined, several pictures may have one box; each is asked for once, in order."""
        same = self._by_place.get("".join(f"_{int(edge)}" for edge in (box.left, box.top, box.right, box.bottom)))
        if not same:
            return ""
        return same.pop(0) if len(same) > 1 else same[0]

    def in_cell(self, text: str) -> str:
        """A cell's text with the paths that the pictures have now."""
        return PICTURE.sub(lambda match: f"\ue002{self._now(match[1])}\ue003", text)

    def _now(self, path: str) -> str:
        place = None if path in self._all else BOX_IN_NAME.search(path)
        return self._by_place.get(place[1], [path])[0] if place else path


def _with_number(formula: str, after: Block, markdown: str) -> str:
    """The formula with its number where the Markdown has it (``showFormulaNumber``), as PaddleX puts it there."""
    tag = f" \\tag*{{{after.content}}}"
    if after.label != "formula_number" or tag not in markdown:
        return formula
    return f"$${formula.replace('$$', '')}{tag}$$"


def outline_of(pages: Iterable[tuple[int, Mapping[str, Any]]]) -> Outline:
    """Of a document. ``pages``: number from 1, and the entry of an answer; each is read once."""
    titles, places = [], []
    for number, entry in pages:
        pruned = entry.get("prunedResult") or {}
        size = side(pruned.get("width")), side(pruned.get("height"))
        for index, block in content_blocks(entry) if pruned else ():
            if block.label in TITLES and block.content and not block.markdown:
                titles.append(Title.of(block.label, block.content, block.boxes[0], number, size))
                places.append((number, index))
    found: dict[int, dict[int, int]] = {}
    for (number, index), level in zip(places, levels(titles), strict=True):
        found.setdefault(number, {})[index] = level
    return found


class Levels:
    """The levels of a page's headings: by the ``outline`` of the document; of a page by itself those that PaddleX gave
    them in the page's ``markdown``, else by their numbers.

    A document's title with a section's number ("3 Method") is a section: layout models take the first heading of a page
    for a title.
    """

    def __init__(self, markdown: str, outline: PageOutline | None = None) -> None:
        self._said = {key(match[2]): len(match[1]) for match in HEADING.finditer(markdown)}
        self._outline = outline

    def of(self, label: str, text: str, index: int) -> int:
        """Of the block at ``index``; 0 for what is no heading."""
        if label not in TITLES:
            return 0
        if self._outline is not None and index in self._outline:
            return self._outline[index]
        numbered = NUMBERED.match(text) if label in ("doc_title", "paragraph_title") else None
        by_number = TITLES["paragraph_title"] + numbered[1].count(".") if numbered else TITLES[label]
        return by_number if numbered and label == "doc_title" else min(self._said.get(key(text), by_number), 6)


def tables_of(block: Block) -> tuple[list[Table], str]:
    """The tables of a block, whose cells have formulas with their signs; and the text that follows them."""
    if block.label not in ("table", "chart"):
        return [], ""
    if block.markdown:
        return _markdown_tables(block.content), ""
    if not BEGINS_TABLE.match(block.content):
        return _chart(block), ""
    reader = CellReader()
    reader.feed(block.content)
    reader.close()
    first, *others = reader.tables() or [Table([])]
    tables = [first.with_head(block.head), *others] if first.cells else []
    after = re.split(r"</table\s*>", block.content, flags=re.IGNORECASE)[-1]
    return tables, re.sub(rf"\A{AROUND}", "", after, flags=re.IGNORECASE).strip()


def _chart(block: Block) -> list[Table]:
    """A chart is answered as lines of cells between ``|``, the header first."""
    rows = [line.split("|") for line in block.content.split("\n") if line.strip()]
    if block.label != "chart" or len(rows) < 2 or len(rows[0]) < 2:
        return []
    cells = [
        Cell(row, column, text=text.strip(), header=not row)
        for row, texts in enumerate(rows)
        for column, text in enumerate(texts)
    ]
    return [Table(cells)]


def markdown_html(text: str) -> str:
    """HTML that is not sanitised: tables are HTML in the Markdown, so HTML passes here."""
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    tokens = reader.parse(text)
    for token in tokens:
        if token.type == "list_item_open" and token.info:  # a list may begin at any number, and leave some out
            token.attrSet("value", token.info)
    return reader.renderer.render(tokens, reader.options, {})


def _markdown_tables(text: str) -> list[Table]:
    formulas, reader = Formulas(), CellReader()
    reader.feed(markdown_html(formulas.take_out(text)))
    reader.close()
    return [_each(table, formulas.put_back_signs) for table in reader.tables()]


class CellReader(TableReader):
    """Keeps the pictures in cells: the path between U+E002 and U+E003."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        if tag == "img":
            self.handle_data(f"\ue002{dict(attrs).get('src') or ''}\ue003")


def plain(table: Table, *, exact: bool = False) -> Table:
    """The table without pictures; formulas in cells stand as LaTeX without their signs. ``exact``: see ``Block``."""

    def bare(text: str) -> str:
        formulas = Formulas(exact=exact)
        return formulas.put_back_latex(formulas.take_out(PICTURE.sub("", text))).strip()

    return _each(table, bare)


def plain_tables(parts: Iterable[Part]) -> Iterator[Table]:
    """Every table of a page in order."""
    for part in parts:
        if part.table is not None:
            yield plain(part.table, exact=part.exact)
        elif part.markdown:
            yield from map(plain, _markdown_tables(part.text))


def _each(table: Table, change: Any) -> Table:
    return Table([dataclasses.replace(cell, text=change(cell.text)) for cell in table.cells])
