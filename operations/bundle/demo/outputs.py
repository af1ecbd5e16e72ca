# SPDX-License-Identifier: Apache-2.0
"""What the demo writes for a document: `<stem>.md`, `<stem>.json` and the pictures."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bundle import files, parser_client
from bundle.demo.inputs import Document
from tool_errors import ParseError, UsageError

HEADING = re.compile(r"#{1,7}\s+(.+)")


@dataclass(frozen=True)
class Parsed:
    """A parsed document: Markdown with links to `images` (relative path -> bytes), what is written as JSON, and what
    the parser has to say of pages. `partial`: a block is missing or cut."""

    markdown: str
    images: dict[str, bytes]
    record: dict[str, object]
    notes: list[str]
    partial: bool


def check_folder(out: Path) -> None:
    """Raise UsageError unless `out` is a folder that can be written, or that can be made."""
    nearest = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise UsageError(f"--out {out}: {nearest} is not a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(f"--out {out}: {nearest} cannot be written")


def collect(document: Document, result: dict[str, Any], weights: dict[str, object]) -> Parsed:
    """Turn the parser's `result` into what is written. Raises ParseError if a page is missing."""
    pages = result["layoutParsingResults"]
    info = result.get("dataInfo") or {}
    expected = info.get("numPages", len(pages))
    if not pages or len(pages) != expected:
        raise ParseError(f"{document.path}: only {len(pages)} of {expected} pages were parsed")
    notes: list[str] = []
    blocks: dict[int, list[dict[str, Any]]] = {}
    for page in (result.get("docparser") or {}).get("pages", ()):
        if "error" in page:
            raise ParseError(f"{document.path}: page {page['page']} was not parsed: {page['error']['message']}")
        if "blocks" in page:
            blocks[page["page"]] = page["blocks"]
        notes += [f"page {page['page']}: block incomplete: {block['message']}" for block in page.get("blocks", ())]
        notes += [f"page {page['page']}: {note['message']}" for note in page.get("notes", ())]
    texts: list[str] = []
    images: dict[str, bytes] = {}
    records: list[dict[str, Any]] = []
    for number, page in enumerate(pages, 1):
        text, names, pictures = parser_client.relink(page["markdown"], f"images/{document.stem}-{number}-")
        text = outlined(text, page.get("outline", ()))
        images |= pictures
        texts.append(text.strip())
        entry = {"page": number, "prunedResult": page["prunedResult"], "markdown": {"text": text, "images": names}}
        records.append(entry | ({"blocks": blocks[number]} if number in blocks else {}))
    record = {"file": document.path.name, "weights": weights, "dataInfo": info, "pages": records}
    return Parsed("\n\n".join(texts) + "\n", images, record, notes, partial=bool(blocks))


def outlined(text: str, outline: Iterable[dict[str, Any]]) -> str:
    """The Markdown of a page with its headings at their levels in the document (`outline`, in order): PaddleX has a
    document's title on each page."""
    lines, at = text.split("\n"), 0
    for heading in outline:
        for place in range(at, len(lines)):
            found = HEADING.match(lines[place])
            if found and "".join(found[1].split()).rstrip(".") == "".join(heading["text"].split()).rstrip("."):
                lines[place], at = f"{'#' * heading['level']} {heading['text']}", place + 1
                break
    return "\n".join(lines)


def write(parsed: Parsed, stem: str, out: Path) -> None:
    """Write the files to `out`; each appears whole or not at all. Raises UsageError if that cannot be done."""
    try:
        (out / "images").mkdir(parents=True, exist_ok=True)
        for name, data in parsed.images.items():
            files.write(out / name, data)
        files.write(out / f"{stem}.json", files.as_json(parsed.record, indent=1))
        files.write(out / f"{stem}.md", parsed.markdown.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written ({error.strerror})") from error
