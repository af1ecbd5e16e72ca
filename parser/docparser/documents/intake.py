# SPDX-License-Identifier: Apache-2.0
"""From what a client sends to a document on disk: base64, the address of a document, or an upload.

Documents are fetched only from hosts that the operator lists, and never from inside the network: ``outbound`` checks
each address, also after a redirect.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urljoin

import aiohttp

from docparser.contract.request_parts import is_url
from docparser.documents.spool import Document, filled, spooled
from docparser.errors import DocumentTooLarge, InvalidDocument, InvalidRequest, disk_errors
from docparser.outbound import AddressRefused, Allowed, GuardedClient, ListedHosts, NotPublic, Unreachable, is_public
from docparser.settings import Settings
from file_types import HEAD_BYTES, SUPPORTED, format_of, other_format

FILE_TYPES = {0: "PDF", 1: "image"}
Field = str | BinaryIO  # the text of a request's ``file``, or its decoded bytes where it was long
Charge = Callable[[int], None]  # counts so many bytes for the client, where they are more than before
REDIRECTS = (301, 302, 303, 307, 308)
MAX_REDIRECTS = 5
Write = Callable[[bytes], Awaitable[object]]


def decode_into(file: BinaryIO, pieces: Iterable[bytes]) -> None:
    """Decode base64 that comes in pieces, and write the bytes. It may have blanks, and a ``data:...;base64,`` prefix
    that is whole in the first piece.

    Raises InvalidRequest for invalid base64, and for an empty document.
    """
    rest, padded, begun = b"", False, False
    try:
        for piece in pieces:
            if not begun and piece.startswith(b"data:"):
                head, comma, piece = piece.partition(b",")
                if not comma or not head.endswith(b";base64"):
                    raise InvalidRequest("file: a data URL must be of the form data:<type>;base64,<content>")
            begun = True
            text = rest + b"".join(piece.split())
            whole = len(text) // 4 * 4
            text, rest = text[:whole], text[whole:]
            if padded and (text or rest):
                raise ValueError("excess data after padding")
            padded = text.endswith(b"=")
            file.write(base64.b64decode(text, validate=True))
        base64.b64decode(rest, validate=True)
    except ValueError as exc:
        raise InvalidRequest(f"file: not base64 ({exc}); send the document's bytes in base64") from None
    if not file.tell():
        raise InvalidRequest(f"file: the document is empty; expected {SUPPORTED} in base64")


def check_type(data: bytes, file_type: int | None) -> str:
    """The format of the document that begins with ``data``: ``PDF`` or Pillow's name of an image format.

    Raises InvalidDocument if the format is not supported, or is not what ``fileType`` says.
    """
    found = format_of(data)
    if found is None:
        if other := other_format(data):
            raise InvalidDocument(f"file: {other[0]} is not read here; {other[1]}")
        said = "" if file_type is None else f", although fileType is {file_type} ({FILE_TYPES[file_type]})"
        raise InvalidDocument(f"file: neither an image nor a PDF that this service reads{said}; expected {SUPPORTED}")
    if file_type is not None and (found == "PDF") != (file_type == 0):
        right = 0 if found == "PDF" else 1
        raise InvalidDocument(
            f"fileType: {file_type} ({FILE_TYPES[file_type]}) was given, but file is a {found}; "
            f"send fileType {right} or leave it out"
        )
    return found


def type_of_upload(file: BinaryIO) -> str:
    """As ``check_type``; the file is at its beginning then. Raises InvalidRequest for an empty one."""
    file.seek(0)
    head = file.read(HEAD_BYTES)
    if not head:
        raise InvalidRequest(f"file: the document is empty; expected {SUPPORTED}")
    file.seek(0)
    return check_type(head, None)


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
            format = check_type(content.read(HEAD_BYTES), file_type)
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
        async with self._spooled(file, type_of_upload(file)) as document:
            yield document

    @contextlib.asynccontextmanager
    async def opened(self, file: Field, charge: Charge) -> AsyncIterator[BinaryIO]:
        """The document that ``file`` names by URL or holds in base64. It is a file on the disk, unless it is short."""
        if not isinstance(file, str):
            yield file
        elif is_url(file):
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
            with io.BytesIO() as content:
                await asyncio.to_thread(decode_into, content, [file.encode("utf-8", "replace")])
                content.seek(0)
                yield content

    def decoded(self, pieces: Iterable[bytes]) -> contextlib.AbstractContextManager[BinaryIO]:
        """A file with the bytes that the ``pieces`` of base64 encode. Raises InvalidRequest and SpoolFull; blocks."""
        return filled(self._folder, lambda file: decode_into(file, pieces))

    @contextlib.asynccontextmanager
    async def _spooled(self, content: BinaryIO, format: str) -> AsyncIterator[Document]:
        with contextlib.ExitStack() as stack:
            yield await asyncio.to_thread(stack.enter_context, spooled(content, format, self._folder))

    async def close(self) -> None:
        await self._urls.close()


class UrlSource:
    """``allowed`` says whether an address may be connected to; tests replace it, because they have only loopback."""

    def __init__(self, settings: Settings, allowed: Allowed = is_public) -> None:
        self._client = GuardedClient(ListedHosts(settings.url_hosts, "PARSER_URL_HOSTS"), allowed)
        self._max_bytes = settings.max_body_mib << 20
        self._max_mib = settings.max_body_mib
        self._timeout_s = settings.url_timeout_s

    async def close(self) -> None:
        await self._client.close()

    async def fetch(self, url: str, write: Write) -> None:
        """The document's bytes go to ``write``, piece by piece.

        Raises InvalidRequest, InvalidDocument, DocumentTooLarge, and what ``write`` raises of ParserError.
        """
        if not self._client.hosts:
            raise InvalidRequest(
                "file: this service fetches no URLs (PARSER_URL_HOSTS is empty); send the document itself, in base64"
            )
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._follow(url, write)
        except TimeoutError:
            raise InvalidDocument(
                f"file: the URL was not fetched within {self._timeout_s:.0f} s (PARSER_URL_TIMEOUT_S)"
            ) from None
        except NotPublic as exc:
            raise InvalidRequest(f"file: {exc}; this service fetches only from public hosts") from None
        except AddressRefused as exc:
            raise InvalidRequest(f"file: {exc}") from None
        except Unreachable as exc:
            raise InvalidDocument(f"file: {exc}") from None

    async def _follow(self, url: str, write: Write) -> None:
        for _ in range(MAX_REDIRECTS + 1):
            async with self._client.request("GET", url) as response:
                if response.status in REDIRECTS and "Location" in response.headers:
                    url = urljoin(url, response.headers["Location"])
                    continue
                if response.status != 200:
                    raise InvalidDocument(f"file: the URL's host answers {response.status}")
                return await self._read(response, write)
        raise InvalidDocument(f"file: the URL redirects more than {MAX_REDIRECTS} times")

    async def _read(self, response: aiohttp.ClientResponse, write: Write) -> None:
        size = 0
        async for part in response.content.iter_chunked(1 << 18):
            size += len(part)
            if size > self._max_bytes:
                raise DocumentTooLarge(f"file: the URL holds more than {self._max_mib} MiB (PARSER_MAX_BODY_MIB)")
            await write(part)
