# SPDX-License-Identifier: Apache-2.0
"""Routes whose JSON bodies are read by ``contract.strict_json``, and whose documents never become text in memory."""

from __future__ import annotations

import asyncio
import email.message
import mmap
from collections.abc import Callable
from typing import Any, BinaryIO, ClassVar

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from docparser.contract import long_member, strict_json
from docparser.documents.intake import DocumentIntake, Field
from docparser.errors import InvalidRequest, ParserError, SpoolFull
from docparser.http.bodies import IN_MEMORY, Body

SHOWN = 1000  # bytes of a body that is no JSON; errors need no more of it


def body_of(request: Request) -> Body:
    """The gate sets it for every request."""
    return request.state.body


class StrictRequest(Request):
    """``read`` comes before everything else."""

    async def read(self, member: str | None) -> None:
        """Take the JSON from the spool, without the document in its string ``member``, if that is long; see ``field``.
        None: without its last long string, wherever that stands.

        Raises InvalidRequest, DocumentTooLarge and TooBusy.
        """
        body = body_of(self)
        if not self._says_json():
            self._body = await body.read(SHOWN)
        elif body.size > IN_MEMORY:
            self._body = await self._read_long(body, member)
        else:
            self._body = await body.read()
        body.charge(long_member.memory(self._body))

    def _says_json(self) -> bool:
        type = email.message.Message()
        type["content-type"] = self.headers.get("content-type", "")
        return type.get_content_type() == "application/json" or type.get_content_subtype().endswith("+json")

    async def _read_long(self, body: Body, member: str | None) -> bytes:
        """The JSON with an empty string in place of the document."""
        try:
            found = await asyncio.to_thread(_find, body, member)
        except ValueError as exc:
            raise InvalidRequest(str(exc)) from None
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
                return rest, body.keep(intake.decoded(long_member.pieces(data, start, end)))
            except (InvalidRequest, SpoolFull) as exc:
                return rest, exc  # what is wrong with other fields is said first

    async def json(self) -> Any:
        try:
            if len(self._body) > IN_MEMORY:
                return await asyncio.to_thread(strict_json.loads, self._body)
            return strict_json.loads(self._body)
        except strict_json.TooDeep as exc:
            raise HTTPException(400, f"body: {exc}") from None


def _find(body: Body, member: str | None) -> tuple[int, int] | None:
    with mmap.mmap(body.file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return long_member.last(data) if member is None else long_member.find(data, member)


def field(request: Request, text: str) -> Field:
    """The document in the field whose value in the JSON is ``text``. Raises InvalidRequest."""
    document: Field | ParserError = getattr(request.state, "document", text)
    if isinstance(document, ParserError):
        raise document
    return document


class StrictRoute(APIRoute):
    """``document`` is the member that holds the document; see ``StrictRequest.read``."""

    document: ClassVar[str | None] = "file"

    def get_route_handler(self) -> Callable:
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            strict = StrictRequest(request.scope, request.receive)
            await strict.read(self.document)
            return await handle(strict)

        return handle_strictly
