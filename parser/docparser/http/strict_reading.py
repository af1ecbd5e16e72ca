# SPDX-License-Identifier: Apache-2.0
"""Reads bodies strictly: JSON by ``contract.strict_json``, forms in UTF-8. A document never becomes text in memory."""

from __future__ import annotations

import asyncio
import contextlib
import email.errors
import email.header
import email.message
import email.utils
import functools
import mmap
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, BinaryIO, ClassVar, TypeVar

from fastapi import Request, Response
from fastapi.routing import APIRoute
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser

from docparser.contract import strict_json
from docparser.contract.schemas import MAX_PART
from docparser.documents.intake import DocumentIntake, Field
from docparser.documents.spool import Document
from docparser.errors import (
    DocumentTooLarge,
    InvalidDocument,
    InvalidJob,
    InvalidRequest,
    ParserError,
    SpoolFull,
    disk_errors,
)
from docparser.http.bodies import IN_MEMORY, Body

LONGEST_TEXT = 1 << 20  # bytes
LONGEST_JSON = 32 << 20  # bytes beside the document; the reader of JSON lets no other thread run
AT_ONCE = 1 << 16  # bytes of JSON that are read in the event loop; more would keep other requests waiting
TYPE = b"multipart/form-data"
MOST_PARAMETERS = 300  # of a Content-Disposition, counted by its semicolons; a file's name has at most 255 bytes
ENCODED_WORD = re.compile(r"=\?[^?]+\?[bqBQ]\?[^?]*\?=")  # RFC 2047
T = TypeVar("T")


class _Parser(MultiPartParser):
    """Starlette's, which knows names of files in UTF-8 only, and takes a text for Latin-1 where it is not what the form
    says, or says nothing."""

    def on_headers_finished(self) -> None:
        part = self._current_part
        # email's reader takes their square, in the event loop.
        if (part.content_disposition or b"").count(b";") > MOST_PARAMETERS:
            raise MultiPartException(f"a Content-Disposition has more than {MOST_PARAMETERS} parameters")
        try:
            name = file_name(part.content_disposition or b"")
        except (TypeError, ValueError):  # what email's reader raises for odd charsets and parameters
            raise MultiPartException("the name of a file cannot be read; send it in UTF-8") from None
        if name is not None:  # of two, the second counts
            quoted = name.replace("\\", "\\\\").replace('"', '\\"').encode("utf-8", "replace")
            part.content_disposition = (part.content_disposition or b"") + b'; filename="%b"' % quoted
        super().on_headers_finished()

    def on_part_end(self) -> None:
        part = self._current_part
        if part.file is None:
            try:
                bytes(part.data).decode()
            except UnicodeDecodeError as exc:
                raise MultiPartException(
                    f"the text of {part.field_name[:40]!r} is not UTF-8: {exc.reason}; a file needs a filename"
                ) from None
        super().on_part_end()


def file_name(disposition: bytes) -> str | None:
    """The name that a part's Content-Disposition gives its file, None if it gives none: by ``filename*`` alone (urllib3
    1.24), as encoded words (.NET), or as bytes, of which old Windows programs send GBK."""
    header = email.message.Message()
    header["content-disposition"] = disposition.decode("latin-1").replace("\r", " ").replace("\n", " ")
    names = [value for key, value in header.get_params([], "content-disposition") if key == "filename"]
    extended = [value for value in names if isinstance(value, tuple)]
    if extended:
        return email.utils.collapse_rfc2231_value(extended[-1])
    if not names:
        return None
    name = str(names[-1])
    if ENCODED_WORD.search(name):
        with contextlib.suppress(LookupError, ValueError, email.errors.MessageError):
            return str(email.header.make_header(email.header.decode_header(name)))
    for charset in ("utf-8", "gbk"):
        with contextlib.suppress(UnicodeError):
            return name.encode("latin-1").decode(charset)
    return name


@contextlib.asynccontextmanager
async def form_of(request: Request, max_fields: int) -> AsyncIterator[FormData]:
    """The request's form with at most one file, whose files are open as long as the context. Raises InvalidRequest.

    A body of another type has no fields.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != TYPE:  # nothing else can hold a file
        yield FormData()
        return
    try:
        if options.get(b"charset", b"utf-8").lower() not in (b"utf-8", b"utf8"):
            raise MultiPartException("its charset is not UTF-8")
        async with contextlib.aclosing(request.stream()) as stream:
            parser = _Parser(request.headers, stream, max_files=1, max_fields=max_fields, max_part_size=LONGEST_TEXT)
            with disk_errors():
                form = await parser.parse()
    except MultiPartException as exc:
        # Starlette takes a part without a filename for a text.
        hint = "; a file needs a filename" if exc.message.startswith("Part exceeded") else ""
        raise InvalidRequest(f"body: not multipart/form-data as expected ({exc.message.rstrip('.')}{hint})") from None
    try:
        yield form
    finally:
        await form.close()


def says_json(request: Request) -> bool:
    """Whether the body is JSON by its type."""
    type = email.message.Message()
    type["content-type"] = request.headers.get("content-type", "")
    return type.get_content_type() == "application/json" or type.get_content_subtype().endswith("+json")


def check_says_json(request: Request) -> None:
    """Raises InvalidRequest."""
    if not says_json(request):
        kind = request.headers.get("content-type", "")
        shown = f"Content-Type is {kind[:MAX_PART]!r}" if kind else "there is no Content-Type"
        raise InvalidRequest(f"body: expected JSON, but {shown}; send Content-Type: application/json")


def body_of(request: Request) -> Body:
    """The gate sets it for every request."""
    return request.state.body


class StrictRequest(Request):
    """``read`` comes before everything else."""

    async def read(self, most: int) -> None:
        """Take the JSON from the spool, without its longest string: the document (``field``), wherever that stands.
        ``most``: values that the JSON may have.

        Raises InvalidRequest, DocumentTooLarge and TooBusy.
        """
        body = body_of(self)
        self._most = most
        if body.size:
            check_says_json(self)
        if body.size > IN_MEMORY:
            self._body = await self._read_long(body)
        else:
            self._body = await body.read()
        body.charge(await self._soon(strict_json.memory_of))

    async def _soon(self, work: Callable[[bytes], T]) -> T:
        """``work`` over the JSON, in a thread where it is not short."""
        if len(self._body) > AT_ONCE:
            return await asyncio.to_thread(work, self._body)
        return work(self._body)

    async def _read_long(self, body: Body) -> bytes:
        """The JSON with an empty string in place of the document."""
        found = await asyncio.to_thread(_find, body)
        if (beside := body.size - (found[1] - found[0] if found else 0)) > LONGEST_JSON:
            raise DocumentTooLarge(
                f"The JSON has {beside >> 20} MiB beside its document; at most {LONGEST_JSON >> 20} are read."
            )
        if found is None:
            body.charge(body.size * 3)  # before it is in memory; more exactly afterwards
            return await body.read()
        rest, self.state.document = await asyncio.to_thread(self._cut, body, *found)
        await asyncio.to_thread(body.free)
        return rest

    def _cut(self, body: Body, start: int, end: int) -> tuple[bytes, BinaryIO | ParserError]:
        intake: DocumentIntake = self.app.state.intake
        with mmap.mmap(body.file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            rest = data[:start] + data[end:]
            try:
                return rest, body.keep(intake.decoded(strict_json.pieces(data, start, end)))
            except (InvalidRequest, SpoolFull) as exc:
                return rest, exc  # what is wrong with other fields is said first

    async def json(self) -> Any:
        # Of two members of one name, the document that was taken out may be the one that does not count.
        once = hasattr(self.state, "document")
        try:
            return await self._soon(functools.partial(strict_json.loads, most=self._most, once=once))
        except strict_json.BeyondBounds as exc:
            raise HTTPException(400, f"body: {exc}") from None


def _find(body: Body) -> tuple[int, int] | None:
    with mmap.mmap(body.file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return strict_json.longest(data)


def field(request: Request, text: str) -> Field:
    """The document in the field whose value in the JSON is ``text``: an empty one is that of the document which was
    taken out. Raises InvalidRequest."""
    document: Field | ParserError = text or getattr(request.state, "document", text)
    if isinstance(document, ParserError):
        raise document
    return document


@contextlib.contextmanager
def named(where: str) -> Iterator[None]:
    """What is wrong with the document names its field ``where``, which other APIs do not call ``file``."""
    try:
        yield
    except (InvalidRequest, InvalidDocument, InvalidJob) as exc:
        raise type(exc)(str(exc).replace("file:", f"{where}:", 1)) from None


def source_of(find: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    """What ``find`` of a request finds: the field that holds its document, and its value. Raises InvalidRequest."""
    try:
        return find()
    except ValueError as exc:
        raise InvalidRequest(str(exc)) from None


@contextlib.asynccontextmanager
async def document_in(request: Request, where: str, text: str) -> AsyncIterator[Document]:
    """The document in the field ``where``, whose value in the JSON is ``text``. Raises what the intake raises."""
    with named(where):
        async with request.app.state.intake.from_field(field(request, text), None, body_of(request).charge) as document:
            yield document


class StrictRoute(APIRoute):
    """``most``: values of its JSON."""

    most: ClassVar[int] = strict_json.MAX_VALUES

    def reads_json(self, request: Request) -> bool:
        """Whether the body is taken for JSON; else the endpoint reads it itself."""
        return True

    def get_route_handler(self) -> Callable:
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            strict = StrictRequest(request.scope, request.receive)
            if self.reads_json(request):
                await strict.read(self.most)
            return await handle(strict)

        return handle_strictly
