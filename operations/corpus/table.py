# SPDX-License-Identifier: Apache-2.0
"""A document as a table for programs: one row a page, in a Parquet file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from batch.outputs import outline_of_document
from batch.state import DocumentState, Trouble
from docparser.convert.document import ResultPage
from docparser.convert.to_markdown import with_printed_headings

BLOCK = pyarrow.struct(
    [
        ("id", pyarrow.int32()),
        ("label", pyarrow.string()),
        ("text", pyarrow.string()),
        # left, top, right, bottom in pixels of the page as it was read
        ("box", pyarrow.list_(pyarrow.float32())),
        ("order", pyarrow.int32()),
        ("confidence", pyarrow.float32()),
        ("source", pyarrow.string()),  # vlm, or page: its own text
        ("agreement", pyarrow.float32()),
    ]
)
SCHEMA = pyarrow.schema(
    [
        ("document", pyarrow.string()),
        ("page", pyarrow.int32()),  # from 1
        ("text", pyarrow.string()),  # Markdown, as in the document's; null for a page that is missing
        ("blocks", pyarrow.list_(BLOCK)),
        ("model", pyarrow.string()),
        ("errors", pyarrow.list_(pyarrow.string())),
        ("seconds", pyarrow.float32()),  # the sum of the page's stages
    ]
)
ROWS_AT_A_TIME = 64


def write(state: DocumentState, path: Path, seconds: dict[int, float]) -> None:
    """``seconds`` of each page. Pages are read and written a few at a time, so a long document takes no more memory."""
    with pyarrow.parquet.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        rows: list[dict[str, Any]] = []
        for row in _rows(state, seconds):
            rows.append(row)
            if len(rows) == ROWS_AT_A_TIME:
                writer.write_table(pyarrow.Table.from_pylist(rows, SCHEMA))
                rows = []
        writer.write_table(pyarrow.Table.from_pylist(rows, SCHEMA))


def _rows(state: DocumentState, seconds: dict[int, float]) -> Iterator[dict[str, Any]]:
    outline = outline_of_document(state)
    for record in state.records():
        row: dict[str, Any] = {"document": state.document.name.as_posix(), "blocks": [], "errors": []}
        if isinstance(record, Trouble):
            yield {**row, "page": record.page, "errors": [record.reason], "seconds": seconds.get(record.page)}
            continue
        models = record.get("models") or {}
        yield {
            **row,
            "page": record["page"],
            "text": with_printed_headings(ResultPage.from_entry(record, {}, outline.get(record["page"]))),
            "blocks": [_block(block) for block in record["prunedResult"].get("parsing_res_list") or []],
            "model": (models.get("vlm") or {}).get("model"),
            "errors": [note["message"] for note in record.get("blocks") or []],
            "seconds": seconds.get(record["page"]),
        }


def _block(block: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": block.get("block_id"),
        "label": block.get("block_label"),
        "text": block.get("block_content"),
        "box": block.get("block_bbox"),
        "order": block.get("block_order"),
        **{name: block.get(name) for name in ("confidence", "source", "agreement")},
    }
