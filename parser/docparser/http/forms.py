# SPDX-License-Identifier: Apache-2.0
"""Forms with a file: multipart/form-data whose texts are UTF-8."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from fastapi import Request
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData
from starlette.formparsers import MultiPartException, MultiPartParser

from docparser.errors import InvalidRequest

LONGEST_TEXT = 1 << 20  # bytes
TYPE = b"multipart/form-data"


class _Parser(MultiPartParser):
    """Starlette's, which takes a text for Latin-1 where it is not what the form says, or says nothing."""

    def on_part_end(self) -> None:
        part = self._current_part
        if part.file is None:
            try:
                bytes(part.data).decode()
            except UnicodeDecodeError as exc:
                raise MultiPartException(f"the text of {part.field_name[:40]!r} is not UTF-8: {exc.reason}") from None
        super().on_part_end()


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
            form = await parser.parse()
    except MultiPartException as exc:
        raise InvalidRequest(f"body: not multipart/form-data as expected ({exc.message})") from None
    try:
        yield form
    finally:
        await form.close()
