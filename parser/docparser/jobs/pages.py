# SPDX-License-Identifier: Apache-2.0
"""A page of ``/layout-parsing`` as the job API stores and serves it: pictures are files, and have addresses.

The SDKs save pictures under their keys, all pages of a document into one folder, and take no key with a folder in it
(`paddleocr` 3.7, `_api_client/_resources.py`). So ``imgs/a.jpg`` of page 3 becomes ``page_0003_a.jpg``, in the text
too.
"""

from __future__ import annotations

import base64
import json
import mimetypes
import re
from collections.abc import Mapping
from typing import Any

from docparser.contract.answers import NotedBlock
from docparser.parsing.result import PageOutcome

NAME = re.compile(r"[A-Za-z0-9._-]{1,150}")
PICTURES = ("inputImage", "outputImages")  # of an entry; all else is its text
FROZEN = "frozen"  # begins the names of the files that joining needs, see page.frozen


def pack(outcome: PageOutcome, number: int, models: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The stored form of a parsed page: ``page.json`` and its files."""
    parsed = outcome.parsed
    assert parsed is not None
    page = {
        "number": number,
        "width": parsed.width,
        "height": parsed.height,
        "block_notes": parsed.block_notes,
        "page_notes": parsed.page_notes,
        "models": models,
        "entry": json.loads(parsed.entry),
    }
    files = _take_pictures(page["entry"], number)
    if parsed.frozen is not None:
        files |= parsed.frozen
    return page, files


def frozen_of(files: dict[str, bytes]) -> dict[str, bytes]:
    """Those of a page's files that joining needs."""
    return {name: content for name, content in files.items() if name.startswith(FROZEN)}


def repack(
    page: dict[str, Any], text: bytes, files: dict[str, bytes], notes: list[NotedBlock]
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The stored page with its joined ``text`` in place of its own, and ``notes`` on joining beside its own; ``files``
    are those that it had before."""
    entry = json.loads(text)
    new = _take_pictures(entry, page["number"])
    kept = {name: value for name, value in page["entry"].items() if name in PICTURES}
    own = page.get("own_notes", page["block_notes"])  # without those of an earlier joining
    return page | {"entry": kept | entry, "own_notes": own, "block_notes": own + notes}, files | new


def _take_pictures(entry: dict[str, Any], number: int) -> dict[str, bytes]:
    """Replace each base64 picture in ``entry`` by a file's name. Returns the files."""
    files: dict[str, bytes] = {}

    def take(key: str, picture: str) -> str:
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", key.rsplit("/", 1)[-1])[-100:]
        name = f"page_{number:04d}_{stem}" + ("" if mimetypes.guess_type(stem)[0] else ".jpg")
        files[name] = base64.b64decode(picture)
        return name

    if "inputImage" in entry:
        entry["inputImage"] = take("input", entry["inputImage"])
    if "outputImages" in entry:
        entry["outputImages"] = {name: name for name in (take(*item) for item in entry["outputImages"].items())}
    markdown = entry.get("markdown", {})
    if markdown.get("images"):
        names = {key: take(key, picture) for key, picture in markdown["images"].items()}
        markdown["images"] = {name: name for name in names.values()}
        markdown["text"] = _rename(markdown["text"], names)
    return files


def _rename(text: str, names: dict[str, str]) -> str:
    """Every mention of a picture's path in the Markdown."""
    longest_first = sorted(names, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda match: names[match[0]], text)


def with_addresses(entry: dict[str, Any], base: str) -> dict[str, Any]:
    """``entry`` for a client: each picture's address, ``base`` and its file's name, in place of that name."""
    entry = dict(entry)
    if "inputImage" in entry:
        entry["inputImage"] = base + entry["inputImage"]
    if "outputImages" in entry:
        entry["outputImages"] = {key: base + name for key, name in entry["outputImages"].items()}
    if "markdown" in entry:
        images = {key: base + name for key, name in entry["markdown"].get("images", {}).items()}
        entry["markdown"] = entry["markdown"] | ({"images": images} if "images" in entry["markdown"] else {})
    return entry
