# SPDX-License-Identifier: Apache-2.0
"""What a client still sends when its request is refused."""

from __future__ import annotations

import asyncio
import contextlib

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEARD_S = 30.0  # how long a refused client is heard before it is answered
SILENCE_S = 1.0  # a client that sends nothing for so long waits for its answer


class Arriving:
    """``receive`` of one request. Many clients take it for a lost connection if an answer comes while they still send,
    and show nothing of it (undici, and with it Node's fetch)."""

    def __init__(self, scope: Scope, receive: Receive, most: int) -> None:
        """``most``: bytes of a body that are heard before a refusal."""
        self._receive = receive
        self._most = most
        self._heard = 0
        # A client that asks first sends nothing if it is refused (RFC 9110, 10.1.1).
        self._over = any(name == b"expect" for name, _ in scope["headers"])
        self._left = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._heard += len(message.get("body", b""))
        self._left = message["type"] == "http.disconnect"
        self._over = self._left or not message.get("more_body", False)
        return message

    async def refused(self, response: ASGIApp, scope: Scope, send: Send) -> None:
        """Answer once the client has sent its body, or as much of it as is heard."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARD_S):
                while not self._over and self._heard <= self._most:
                    async with asyncio.timeout(SILENCE_S):
                        await self.receive()
        if not self._left:
            await response(scope, self._receive, send)
