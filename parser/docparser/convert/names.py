# SPDX-License-Identifier: Apache-2.0
"""What the service needs to know of formats without their libraries, which its child processes load: the names of
formats, what can be chosen about them, and names of files that any system takes.

What Windows refuses or changes in names: https://learn.microsoft.com/windows/win32/fileio/naming-a-file. Characters
without a shape of their own are left out of names too: U+202E, which turns the direction of writing, shows
``gpj.exe`` as ``exe.jpg``.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from typing import Literal
from urllib.parse import quote

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
# XML 1.0, 2.2: control characters but tab and line ends, halves of surrogate pairs, and two that are no characters.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
MAX_BYTES = 200  # in UTF-8, below the 255 of most file systems: a suffix, a number or a mark of a copy may follow
RESERVED_CHARACTERS = re.compile(r'[<>:"/\\|?*]')
DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)", re.IGNORECASE)
SHAPELESS = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # Unicode's categories of controls, formats, line separators...


@dataclasses.dataclass(frozen=True, kw_only=True)
class How:
    """What a client may choose: ``chunk_tokens`` of the longest chunk; whether a table that goes on on the next page
    becomes one (in every format but JSON and PDF, which show pages); whether signs that were printed are escaped in
    Markdown; whether headings have the levels of the document's outline, or those of each page by itself."""

    chunk_tokens: int = DEFAULT_TOKENS
    join_tables: bool = True
    escape_markdown: bool = False
    outline: bool = True


def writable(text: str) -> str:
    """``text`` with U+FFFD in place of what is FORBIDDEN."""
    return FORBIDDEN.sub("\ufffd", text)


def safe_name(name: str) -> str:
    """``name`` as the name of a file or folder, without folders; "" if nothing is left of it."""
    name = "".join(sign for sign in unicodedata.normalize("NFC", name) if unicodedata.category(sign) not in SHAPELESS)
    name = RESERVED_CHARACTERS.sub("_", name).strip(". ")
    if DEVICES.fullmatch(name.partition(".")[0].rstrip()):
        name = f"_{name}"
    return name.encode()[:MAX_BYTES].decode(errors="ignore").rstrip(". ")


def is_safe_path(path: str) -> bool:
    """Whether ``path``, with slashes, leads below its folder on any system, under the names that it says."""
    return len(path.encode("utf-8", "replace")) <= MAX_BYTES and all(
        part and part == safe_name(part) and re.fullmatch(r"[\w.-]+", part) for part in path.split("/")
    )


def disposition(file_name: str, suffix: str) -> str:
    """The value of the header that names a download (RFC 6266), for the document of this name."""
    name = stem(file_name)
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    return f"attachment; filename=\"{plain}.{suffix}\"; filename*=UTF-8''{quote(name, safe='')}.{suffix}"


def stem(file_name: str) -> str:
    """A document's name without folders and suffix, as a file may be called on any system."""
    name = re.split(r"[/\\]", writable(file_name))[-1]
    return safe_name(re.sub(r"(?<=[^.])\.[^.]*$", "", name)) or "document"
