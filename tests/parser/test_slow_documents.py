# SPDX-License-Identifier: Apache-2.0
"""What is remembered of documents that were given up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from docparser.documents.spool import Document
from docparser.errors import DocumentTooSlow
from docparser.parsing.document_pages import GIVE_UP_AFTER, OPENING, SlowDocuments


@pytest.fixture
def slow(tmp_path: Path):
    def make(name: str, content: bytes) -> Document:
        (tmp_path / name).write_bytes(content)
        return Document(str(tmp_path / name), "PDF")

    return make


async def refused(known: SlowDocuments, document: Document, *parts: int | str) -> str:
    try:
        await known.check(document, *parts)
    except DocumentTooSlow as exc:
        return str(exc)
    return ""


async def _remember(slow) -> None:
    known, error = SlowDocuments(), DocumentTooSlow("page 5 is slow")
    first, same, other = slow("a", b"bomb"), slow("b", b"bomb"), slow("c", b"good")
    assert await known.note(first, 4, error) is None
    assert await refused(known, same, 4) == "page 5 is slow", "by its content, whatever its name"
    assert await refused(known, same, 3) == "" and await refused(known, other, 4) == ""
    Path(same.path).write_bytes(b"changed")
    assert await refused(known, same, 4) == ""
    said = [await known.note(first, index, error) for index in range(5, 4 + GIVE_UP_AFTER)]
    assert said[-1] is not None and said[-1] == await refused(known, first, 0), "all of its pages"
    await known.note(other, OPENING, DocumentTooSlow("opening is slow"))
    assert await refused(known, other, 0) == "opening is slow"


def test_documents_are_remembered_by_their_content(slow):
    asyncio.run(_remember(slow))
