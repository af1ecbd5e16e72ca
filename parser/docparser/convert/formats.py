# SPDX-License-Identifier: Apache-2.0
"""The formats that a result can be had in."""

from __future__ import annotations

import io
import json
import re
import zipfile
from typing import Literal

from docparser.convert import to_html, to_xlsx
from docparser.convert.document import Document
from docparser.convert.tables import find_tables

Format = Literal["md", "json", "html", "xlsx", "zip"]
FORMATS: dict[str, str] = {
    "md": "text/markdown; charset=utf-8",
    "json": "application/json",
    "html": "text/html; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "zip": "application/zip",
}
PAGE_BREAK = "\n\n"


def convert(document: Document, format: Format) -> bytes:
    return {"md": _markdown, "json": _json, "html": _html, "xlsx": to_xlsx.render, "zip": _zip}[format](document)


def _markdown(document: Document) -> bytes:
    return (PAGE_BREAK.join(page.text.strip() for page in document.pages) + "\n").encode("utf-8", "replace")


def _json(document: Document) -> bytes:
    return json.dumps(document.result, ensure_ascii=False).encode("utf-8", "replace")


def _html(document: Document) -> bytes:
    return to_html.render(document).encode("utf-8", "replace")


def _zip(document: Document) -> bytes:
    """Markdown with its pictures, JSON, HTML, and a workbook if there are tables."""
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"{document.stem}.md", _markdown(document))
            archive.writestr(f"{document.stem}.json", _json(document))
            archive.writestr(f"{document.stem}.html", _html(document))
            if find_tables(document):
                archive.writestr(f"{document.stem}.xlsx", to_xlsx.render(document))
            written: set[str] = set()
            for page in document.pages:
                for path in page.pictures:
                    name = safe_path(path)
                    if name and name not in written:
                        written.add(name)
                        archive.writestr(name, page.picture(path), zipfile.ZIP_STORED)
        return buffer.getvalue()


def safe_path(path: str) -> str:
    """A picture's path as it may stand in an archive: below its root, or "" if it would not."""
    parts = path.split("/")
    return path if all(re.fullmatch(r"[\w.-]+", part) and part.strip(".") for part in parts) else ""
