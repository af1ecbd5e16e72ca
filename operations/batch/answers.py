# SPDX-License-Identifier: Apache-2.0
"""Write the files of one page from the parser's answer."""

from __future__ import annotations

import base64
from collections import Counter
from typing import Any

from bundle import files, parser_client
from bundle.progress import plural
from tool_errors import ParseError

from .pages import Page
from .picture_pdf import as_jpeg
from .state import DocumentState, Doubt, Note, Trouble

DRAWING = "layout_det_res"  # PaddleX's name of the page with its layout boxes


def keep(state: DocumentState, number: int, page: Page, result: dict[str, Any]) -> None:
    """Write a page's pictures and drawing, note incomplete and doubtful blocks, and write the record last, so that no
    half-written page passes as complete. Raises ParseError when the answer holds no such page.
    """
    report = result.get("docparser") or {}
    notes: dict[str, Any] = next(iter(report.get("pages") or []), {})
    if error := notes.get("error"):
        raise ParseError(error.get("message", str(error)) if isinstance(error, dict) else str(error))
    entries = result.get("layoutParsingResults") or []
    if len(entries) != 1:
        raise ParseError(f"the parser answered with {len(entries)} pages for one")
    entry = entries[0]
    try:
        text, images, pictures = parser_client.relink(entry["markdown"], f"images/{number:05d}-")
        for name, data in pictures.items():
            files.write(state.folder / name, data, state.lasting)
        if drawing := (entry.get("outputImages") or {}).get(DRAWING):
            files.write(state.drawing(number), as_jpeg(base64.b64decode(drawing)), state.lasting)
        found, sources = doubts(entry["prunedResult"]), whose(entry["prunedResult"])
        record = {"page": number, "prunedResult": entry["prunedResult"], "markdown": {"text": text, "images": images}}
        record |= {name: entry[name] for name in ("tableHeads", "outline", "places") if name in entry}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ParseError(f"the parser's answer cannot be understood ({type(error).__name__}: {error})") from error
    state.count_sources(number, sources)
    state.doubt(number, found)
    told = [Note(str(one.get("kind")), str(one.get("message"))) for one in notes.get("notes") or []]
    state.tell(number, [*page.notes, *told])
    blocks = notes.get("blocks") or []
    if page.points:
        record["points"] = page.points
    record["dataInfo"] = result.get("dataInfo")
    record["models"] = report.get("models")
    if blocks:
        record["blocks"] = blocks
        reason = f"{plural(len(blocks), 'block')} incomplete: {blocks[0].get('message', blocks[0])}"
        state.note(Trouble(number, reason, lost=False))
    files.write_json(state.page_file(number), record, state.lasting)
    if not blocks:
        state.clear(number)


def doubts(pruned: dict[str, Any]) -> list[Doubt]:
    """The blocks that the parser marks as doubtful. Raises TypeError, AttributeError, ValueError if ``pruned`` is no
    page."""
    return [
        Doubt(
            int(block.get("block_id", number)),
            str(block.get("block_label")),
            *(None if block.get(name) is None else float(block[name]) for name in ("confidence", "agreement")),
        )
        for number, block in enumerate(pruned.get("parsing_res_list") or [])
        if block.get("doubtful")
    ]


def whose(pruned: dict[str, Any]) -> Counter[str]:
    """How many blocks have the VLM's letters, and how many the page's own. Raises TypeError, AttributeError."""
    return Counter(block["source"] for block in pruned.get("parsing_res_list") or [] if block.get("source"))
