# SPDX-License-Identifier: Apache-2.0
"""From what a client sends to a document on disk: base64, the address of a document, or an upload."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from docparser.documents import source
from docparser.documents.spool import Document, spooled
from docparser.documents.url_source import UrlSource
from docparser.errors import InvalidRequest
from file_types import HEAD_BYTES, SUPPORTED


class DocumentIntake:
    """``folder`` is PARSER_SPOOL_DIR. A document exists as long as the context that made it."""

    def __init__(self, folder: Path | None, urls: UrlSource) -> None:
        self._folder = folder
        self._urls = urls

    @contextlib.asynccontextmanager
    async def from_field(self, file: str, file_type: int | None) -> AsyncIterator[Document]:
        """The document in ``file`` and ``fileType`` of a request.

        Raises InvalidRequest, InvalidDocument, DocumentTooLarge, SpoolFull.
        """
        data = await self.read_field(file)
        format = source.check_type(data, file_type)
        content = io.BytesIO(data)
        del data
        async with self._spooled(content, format) as document:
            content.close()  # frees the memory, which may be much, while the pages are parsed
            yield document

    @contextlib.asynccontextmanager
    async def from_upload(self, file: BinaryIO) -> AsyncIterator[Document]:
        """The document in an uploaded file, which may be closed once the context is entered. Raises as above."""
        file.seek(0)
        head = file.read(HEAD_BYTES)
        if not head:
            raise InvalidRequest(f"file: the document is empty; expected {SUPPORTED}")
        format = source.check_type(head, None)
        file.seek(0)
        async with self._spooled(file, format) as document:
            yield document

    async def read_field(self, file: str) -> bytes:
        """The bytes that ``file`` names by URL, or holds in base64."""
        if source.is_url(file):
            return await self._urls.fetch(file)
        return await asyncio.to_thread(source.decode, file)

    @contextlib.asynccontextmanager
    async def _spooled(self, content: BinaryIO, format: str) -> AsyncIterator[Document]:
        with contextlib.ExitStack() as stack:
            yield await asyncio.to_thread(stack.enter_context, spooled(content, format, self._folder))

    async def close(self) -> None:
        await self._urls.close()
