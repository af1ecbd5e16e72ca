# SPDX-License-Identifier: Apache-2.0
"""From the parser's answer for one page to that page's files."""

from __future__ import annotations

import base64
from pathlib import PurePosixPath
from typing import Any

from bundle.errors import ParseError

from . import files
from .outputs.picture_pdf import as_jpeg
from .pages import Page
from .state import DocumentState, Trouble

DRAWING = "layout_det_res"  # PaddleX's name of the page with its layout boxes


def keep(state: DocumentState, number: int, page: Page, result: dict[str, Any]) -> Trouble | None:
    """Write a page's pictures, drawing and record; returns what is incomplete about it.

    Raises ParseError when the answer holds no such page.
    """
    report = result.get("docparser") or {}
    notes = next(iter(report.get("pages") or []), {})
    if error := notes.get("error"):
        raise ParseError(error.get("message", str(error)) if isinstance(error, dict) else str(error))
    entries = result.get("layoutParsingResults") or []
    if len(entries) != 1:
        raise ParseError(f"the parser answered with {len(entries)} pages for one")
    entry = entries[0]
    try:
        text, images = take_images(state, number, entry["markdown"])
        if drawing := (entry.get("outputImages") or {}).get(DRAWING):
            files.write(state.drawing(number), as_jpeg(base64.b64decode(drawing)))
        record = {"page": number, "prunedResult": entry["prunedResult"], "markdown": {"text": text, "images": images}}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ParseError(f"the parser's answer cannot be understood ({type(error).__name__}: {error})") from error
    blocks = notes.get("blocks") or entry["prunedResult"].get("block_failures") or []
    if page.points:
        record["points"] = page.points
    record["dataInfo"] = result.get("dataInfo")
    record["models"] = report.get("models") or result.get("models")
    if blocks:
        record["blocks"] = blocks
    files.write_json(state.page_file(number), record)
    if not blocks:
        return None
    reason = f"{len(blocks)} block{'s' if len(blocks) > 1 else ''} incomplete: {blocks[0].get('message', blocks[0])}"
    return Trouble(number, reason, lost=False)


def take_images(state: DocumentState, number: int, markdown: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Write the pictures; returns the text with links to them, and their new names by the parser's."""
    text, names = markdown["text"], {}
    for source, data in (markdown.get("images") or {}).items():
        # The name comes over the network: only its last part is used.
        target = f"images/{number:05d}-{PurePosixPath(source).name}"
        files.write(state.folder / target, base64.b64decode(data))
        text = text.replace(source, target)
        names[source] = target
    return text, names
