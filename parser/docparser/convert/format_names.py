# SPDX-License-Identifier: Apache-2.0
"""The formats that a result can be asked for in, and what can be chosen about them. Loads none of their libraries: the
service needs the names alone, its child processes the rest."""

from __future__ import annotations

import dataclasses
from typing import Literal

Format = Literal["md", "json", "html", "xlsx", "docx", "pdf", "chunks", "zip"]
FORMATS: dict[str, str] = {
    "md": "text/markdown; charset=utf-8",
    "json": "application/json",
    "html": "text/html; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "pdf": "application/pdf",
    "chunks": "application/x-ndjson",
    "zip": "application/zip",
}
SUFFIXES: dict[str, str] = {name: name for name in FORMATS} | {"chunks": "chunks.jsonl"}
WITH_PICTURES = ("json", "html", "docx", "zip")  # the others have no use for those in the text
SHOWN = ("md", "json", "html")  # by browsers; they save others
PAGE_BREAK = "\n\n"  # between the pages of a Markdown text
LEAST_TOKENS, DEFAULT_TOKENS, MOST_TOKENS = 32, 512, 8192  # of the longest chunk


@dataclasses.dataclass(frozen=True, kw_only=True)
class How:
    """What a client may choose: ``chunk_tokens`` of the longest chunk; whether a table that goes on on the next page
    becomes one (in every format but JSON and PDF, which show pages); whether signs that were printed are escaped in
    Markdown; whether headings have the levels of the document's outline, or those of each page by itself."""

    chunk_tokens: int = DEFAULT_TOKENS
    join_tables: bool = True
    escape_markdown: bool = False
    outline: bool = True


AS_USUAL = How()
