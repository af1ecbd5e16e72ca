# SPDX-License-Identifier: Apache-2.0
"""A parsed document, as the other formats are made from it."""

from __future__ import annotations

import base64
import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote


@dataclasses.dataclass(frozen=True)
class Page:
    """``text`` is Markdown; ``pictures`` holds what it shows, by the path that it shows it under."""

    text: str
    pictures: Mapping[str, bytes | Path]

    def picture(self, path: str) -> bytes:
        content = self.pictures[path]
        return content.read_bytes() if isinstance(content, Path) else content


@dataclasses.dataclass(frozen=True)
class Document:
    """``result`` is that of ``/layout-parsing``, with pictures' paths in place of the pictures where they are files."""

    stem: str
    pages: list[Page]
    result: dict[str, Any]

    @classmethod
    def of_result(cls, file_name: str, result: dict[str, Any]) -> Document:
        """From an answer of ``/layout-parsing``, whose pictures are base64."""
        pages = []
        for entry in result["layoutParsingResults"]:
            images = entry["markdown"].get("images") or {}
            pages.append(Page(entry["markdown"]["text"], {key: base64.b64decode(data) for key, data in images.items()}))
        return cls(stem(file_name), pages, result)

    @classmethod
    def of_job(
        cls, file_name: str, entries: list[dict], data_info: dict, report: dict, files: Mapping[str, Path]
    ) -> Document:
        """From a job's pages: their pictures are paths into ``files``."""
        pages = [
            Page(entry["markdown"]["text"],
                 {key: files[path] for key, path in entry["markdown"].get("images", {}).items() if path in files})
            for entry in entries
        ]  # fmt: skip
        return cls(stem(file_name), pages,
                   {"layoutParsingResults": entries, "dataInfo": data_info, "docparser": report})  # fmt: skip

    def disposition(self, suffix: str) -> dict[str, str]:
        """The header that names the download (RFC 6266)."""
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", self.stem)
        value = f"attachment; filename=\"{plain}.{suffix}\"; filename*=UTF-8''{quote(self.stem, safe='')}.{suffix}"
        return {"Content-Disposition": value}


def stem(file_name: str) -> str:
    """A document's name without folders and suffix; never empty, no control characters."""
    return re.sub(r"[\x00-\x1f\x7f]", "", PurePath(file_name).stem).strip(". ") or "document"
