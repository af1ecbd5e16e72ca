# SPDX-License-Identifier: Apache-2.0
"""Refuses request bodies that are too large before they are read into memory."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from docparser.http.errors import error_response


class BodyLimit:
    """ASGI middleware: answers 413 to a body larger than ``max_bytes``, by its declared or its actual size."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._max_bytes:
            return await self._refuse(scope, receive, send)
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._max_bytes:
                raise ValueError("the request's body is too large")  # ends the reading; `gated` sends the answer
            return message

        async def gated(message: Message) -> None:
            if received <= self._max_bytes:
                await send(message)
            elif message["type"] == "http.response.start":
                await self._refuse(scope, receive, send)

        await self._app(scope, counted, gated)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = f"The request is larger than {self._max_bytes >> 20} MiB (PARSER_MAX_BODY_MIB)."
        await error_response(413, message, headers={"Connection": "close"})(scope, receive, send)
