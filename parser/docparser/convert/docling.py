# SPDX-License-Identifier: Apache-2.0
"""A result as docling-serve answers it (``contract.docling``): Markdown, HTML, text, and a DoclingDocument."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, BinaryIO

from docparser.convert import to_html
from docparser.convert.blocks import Block, all_blocks, heads_of
from docparser.convert.document import ResultDocument, ResultPage
from docparser.convert.names import PAGE_BREAK
from docparser.convert.parts import CAPTIONS, PICTURES, Levels, PageOutline, Paths, outline_of, plain, tables_of
from docparser.convert.table_joins import joined_pages
from docparser.convert.to_markdown import with_pictures
from docparser.html_tables import Table
from docparser.places.box import Box

VERSION = "1.3.0"  # of DoclingDocument (docling-core); later readers know it
PLACEHOLDER = "<!-- image -->"
PAGE_DPI = 72  # sizes are pixels of the page as it was read
# Labels of docling by ours; the rest are texts.
TITLE, HEADING = "title", "section_header"
LABELS = {
    **dict.fromkeys(CAPTIONS, "caption"),
    **dict.fromkeys(("display_formula", "inline_formula", "formula", "formula_number"), "formula"),
    **dict.fromkeys(("reference", "reference_content"), "reference"),
    **dict.fromkeys(("footnote", "vision_footnote"), "footnote"),
    **dict.fromkeys(("footer", "number"), "page_footer"),
    "header": "page_header",
    "algorithm": "code",
    "doc_title": TITLE,
}
FURNITURE = ("page_header", "page_footer")
FLOATING: dict[str, list[Any]] = {"captions": [], "references": [], "footnotes": []}


def convert_answer(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """A job of a child process: writes ``DoclingAnswer``.

    ``args``: those of ``ResultDocument.read``; ``formats`` that are wanted; ``embed``, whether pictures are in the
    Markdown and the DoclingDocument; ``seconds`` that it took.
    """
    document = ResultDocument.read(args, source)
    joined = dataclasses.replace(document, pages=list(joined_pages(document.numbered())))
    writers: dict[str, Callable[[], Any]] = {
        "md": lambda: PAGE_BREAK.join(_markdown(page, args["embed"]) for page in joined.pages),
        "json": lambda: _Document(document, args["embed"]).written(),
        "html": lambda: "".join(to_html.pieces(joined)),
        "text": lambda: PAGE_BREAK.join(_text(entry) for _, entry in document.entries()),
    }
    report = document.result["docparser"]
    answer = {
        "document": {
            "filename": args["name"],
            **{f"{format}_content": writers[format]() if format in args["formats"] else None for format in writers},
        },
        "status": "partial_success" if report["partial"] else "success",
        "errors": [
            {
                "component_type": "pipeline",
                "module_name": "docparser",
                "error_message": f"page {page['page']}: {said['message']}",
            }
            for page in report["pages"]
            for said in (*([page["error"]] if "error" in page else ()), *page.get("blocks", ()), *page.get("notes", ()))
        ],
        "processing_time": args["seconds"],
        "timings": {},
    }
    sink.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace"))


def _markdown(page: ResultPage, embed: bool) -> str:
    return with_pictures(page, lambda path: f"![Image]({page.data_url(path)})" if embed else PLACEHOLDER)


def _text(entry: dict[str, Any]) -> str:
    return "\n\n".join(filter(None, (_block_text(block) for block in all_blocks(entry["prunedResult"]))))


def _block_text(block: Block) -> str:
    tables, after = tables_of(block)
    if not tables:
        return "" if LABELS.get(block.label) in FURNITURE else block.plain
    rows = ["\n".join("\t".join(row) for row in plain(table, exact=block.exact).rows()) for table in tables]
    return "\n\n".join(filter(None, (*rows, after)))


class _Document:
    """A DoclingDocument, whose items stand in the order of reading, all below its body."""

    def __init__(self, document: ResultDocument, embed: bool) -> None:
        self._embed = embed
        self._children: list[dict[str, str]] = []
        self._items: dict[str, list[dict[str, Any]]] = {"texts": [], "tables": [], "pictures": []}
        self._pages: dict[str, Any] = {}
        self._name = document.stem
        outline = outline_of(document.entries())
        for (number, entry), page in zip(document.entries(), document.pages, strict=True):
            self._add_page(number, entry, page, outline.get(number))

    def written(self) -> dict[str, Any]:
        body = {"self_ref": "#/body", "children": self._children, "content_layer": "body", "name": "_root_"}
        return {
            "schema_name": "DoclingDocument",
            "version": VERSION,
            "name": self._name,
            "body": {**body, "label": "unspecified"},
            "groups": [],
            **self._items,
            "key_value_items": [],
            "form_items": [],
            "pages": self._pages,
        }

    def _add_page(self, number: int, entry: dict[str, Any], page: ResultPage, outline: PageOutline | None) -> None:
        pruned, levels = entry["prunedResult"], Levels(page.text, outline)
        if pruned.get("width") and pruned.get("height"):
            size = {"width": pruned["width"], "height": pruned["height"]}
            self._pages[str(number)] = {"page_no": number, "size": size}
        paths = Paths(page.pictures)
        for index, block in enumerate(all_blocks(pruned, heads_of(entry))):
            if block.label in PICTURES and (path := paths.of_box(block.boxes[0])):
                self._add("pictures", number, block, **self._picture(page, path, block.boxes[0]))
            tables, after = tables_of(block)
            for table in tables:
                self._add(
                    "tables", number, block, label="table", data=_table(plain(table, exact=block.exact)), **FLOATING
                )
            if text := after if tables else block.plain:
                self._add_text(number, block, text, levels.of(block.label, block.content, index))

    def _add_text(self, number: int, block: Block, text: str, level: int) -> None:
        label = LABELS.get(block.label, HEADING)
        if label == HEADING or (label == TITLE and level != 1):  # a title that is printed again is no heading
            label = HEADING if level else "text"
        more: dict[str, Any] = {"label": label, "orig": text, "text": text}
        if label == HEADING:
            more["level"] = max(1, level - 1)  # a title stands above the first level
        if label == "code":
            more |= {"code_language": "unknown", **FLOATING}
        if label in FURNITURE:
            more["content_layer"] = "furniture"
        self._add("texts", number, block, **more)

    def _add(self, kind: str, number: int, block: Block, **more: Any) -> None:
        ref = f"#/{kind}/{len(self._items[kind])}"
        places = [
            {
                "page_no": number,
                "bbox": {"l": box.left, "t": box.top, "r": box.right, "b": box.bottom, "coord_origin": "TOPLEFT"},
                "charspan": [0, len(more.get("text", ""))],
            }
            for box in block.boxes
        ]
        item = {"self_ref": ref, "parent": {"$ref": "#/body"}, "children": [], "content_layer": "body", "prov": places}
        self._items[kind].append(item | more)
        self._children.append({"$ref": ref})

    def _picture(self, page: ResultPage, path: str, box: Box) -> dict[str, Any]:
        more: dict[str, Any] = {"label": "picture", "annotations": [], **FLOATING}
        if self._embed:
            url = page.data_url(path)
            kind = url.removeprefix("data:").partition(";")[0]
            size = {"width": box.width, "height": box.height}
            more["image"] = {"mimetype": kind, "dpi": PAGE_DPI, "size": size, "uri": url}
        return more


def _table(table: Table) -> dict[str, Any]:
    cells = [
        {
            "text": cell.text,
            "row_span": cell.rows,
            "col_span": cell.columns,
            "start_row_offset_idx": cell.row,
            "end_row_offset_idx": cell.row + cell.rows,
            "start_col_offset_idx": cell.column,
            "end_col_offset_idx": cell.column + cell.columns,
            "column_header": cell.header,
            "row_header": False,
            "row_section": False,
        }
        for cell in table.cells
    ]
    return {"table_cells": cells, "num_rows": table.height, "num_cols": table.width}
