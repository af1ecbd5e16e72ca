# SPDX-License-Identifier: Apache-2.0
"""Requests to the middleware before a simulated vLLM, and what came back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from PIL import Image

from tests.plugin.chat import encode
from tests.support.wait import WAIT_S
from vlm_models.middleware import ChatOnly

CHAT = "/v1/chat/completions"
SIDE = 100
BOMB = encode(Image.new("1", (SIDE, SIDE)))


class Exchange:
    """One request to the middleware, and what came back."""

    def __init__(self, gate: ChatOnly, *parts: bytes, method: str = "POST", path: str = CHAT, **headers: str) -> None:
        said = [(name.encode(), value.encode()) for name, value in headers.items()]
        self.gate, self.scope = gate, {"type": "http", "method": method, "path": path, "headers": said}
        last = len(parts) - 1
        self.incoming = [
            {"type": "http.request", "body": part, "more_body": place < last} for place, part in enumerate(parts)
        ]
        self.sent: list[Any] = []

    async def run(self) -> Exchange:
        await self.gate(self.scope, self.receive, self.send)
        return self

    async def receive(self) -> Any:
        if not self.incoming:
            await asyncio.Event().wait()
        return self.incoming.pop(0)

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def message(self) -> str:
        return json.loads(self.sent[1]["body"])["error"]["message"]


class Vllm:
    """The simulated server: records what arrives, and lets `work` do something with it."""

    def __init__(self, work: Callable[[dict[str, Any]], Awaitable[None]] | None = None) -> None:
        self.arrived: list[bytes] = []
        self.headers: dict[bytes, bytes] = {}
        self.work = work

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.headers = dict(scope["headers"])
        if scope["method"] == "POST":
            self.arrived.append((await receive())["body"])
            if self.work:
                await self.work(json.loads(self.arrived[-1]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def ask(*parts: bytes, **options: str) -> tuple[Exchange, list[bytes]]:
    """One request by itself, and what arrived behind the middleware."""
    vllm = Vllm()

    async def run() -> Exchange:
        return await Exchange(ChatOnly(vllm), *parts, **options).run()

    return asyncio.run(asyncio.wait_for(run(), WAIT_S)), vllm.arrived
