# SPDX-License-Identifier: Apache-2.0
"""From what a client sends to a document on disk: base64, the address of a document, or an upload."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from docparser.documents import source
from docparser.documents.spool import Document, disk_errors, filled, spooled
from docparser.documents.url_source import UrlSource
from docparser.errors import InvalidRequest
from file_types import HEAD_BYTES, SUPPORTED

Field = str | BinaryIO  # the text of a request's ``file``; or what was decoded of it already, because it was long
Charge = Callable[[int], None]  # counts so many bytes for the client, where they are more than before


class DocumentIntake:
    """``folder`` is PARSER_SPOOL_DIR. A document exists as long as the context that made it."""

    def __init__(self, folder: Path | None, urls: UrlSource) -> None:
        self._folder = folder
        self._urls = urls

    @contextlib.asynccontextmanager
    async def from_field(self, file: Field, file_type: int | None, charge: Charge) -> AsyncIterator[Document]:
        """The document in ``file`` and ``fileType`` of a request.

        Raises InvalidRequest, InvalidDocument, DocumentTooLarge, SpoolFull, and what ``charge`` raises.
        """
        async with self.opened(file, charge) as content:
            format = source.check_type(content.read(HEAD_BYTES), file_type)
            content.seek(0)
            if not isinstance(content, io.BytesIO):
                yield Document(content.name, format)
                return
            async with self._spooled(content, format) as document:
                content.close()  # frees the memory while the pages are parsed
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

    @contextlib.asynccontextmanager
    async def opened(self, file: Field, charge: Charge) -> AsyncIterator[BinaryIO]:
        """What ``file`` names by URL, or holds in base64: a file on the disk, unless it is short."""
        if not isinstance(file, str):
            yield file
        elif source.is_url(file):
            with contextlib.ExitStack() as stack:
                fetched = await asyncio.to_thread(stack.enter_context, filled(self._folder))

                async def write(piece: bytes) -> None:
                    with disk_errors():
                        await asyncio.to_thread(fetched.write, piece)
                    charge(fetched.tell())

                await self._urls.fetch(file, write)
                with disk_errors():
                    fetched.seek(0)
                yield fetched
        else:
            with io.BytesIO(await asyncio.to_thread(source.decode, file)) as content:
                yield content

    def decoded(self, pieces: Iterable[bytes]) -> contextlib.AbstractContextManager[BinaryIO]:
        """A file with what ``pieces`` of base64 stand for. Raises InvalidRequest and SpoolFull; blocks."""
        return filled(self._folder, lambda file: source.decode_into(file, pieces))

    @contextlib.asynccontextmanager
    async def _spooled(self, content: BinaryIO, format: str) -> AsyncIterator[Document]:
        with contextlib.ExitStack() as stack:
            yield await asyncio.to_thread(stack.enter_context, spooled(content, format, self._folder))

    async def close(self) -> None:
        await self._urls.close()
