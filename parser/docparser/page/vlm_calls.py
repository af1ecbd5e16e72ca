# SPDX-License-Identifier: Apache-2.0
"""Calls of the VLM for the blocks of pages. They run on an event loop in a thread of their own. Loads no PaddleX."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any

from docparser import traces
from docparser.page.question import TABLE_PROMPT, Question, Sampling
from docparser.vlm.client import Reply, VlmClient
from docparser.vlm.repetition import TABLE, TEXT, Guard


@dataclasses.dataclass(frozen=True)
class BlockCalls:
    """The calls for one block. A request is the fields of a chat completion but for the model."""

    client: VlmClient
    model: str
    request_id: str

    async def one(self, request: dict[str, Any], guard: Guard) -> Reply:
        """Raises VlmUnavailable."""
        return await self.client.read_block({"model": self.model, **request}, self.request_id, guard)

    async def each(self, requests: Sequence[dict[str, Any]], guard: Guard, part: str = "") -> list[Reply]:
        """All at once; ``part`` of the block names them. Raises VlmUnavailable."""
        names = [f"{self.request_id}{part}-{number}" for number in range(len(requests))]
        calls = [dataclasses.replace(self, request_id=name) for name in names]
        return list(await asyncio.gather(*(call.one(request, guard) for call, request in zip(calls, requests))))


# What computes is done when it is called; what it returns waits for the VLM.
ReadBlock = Callable[[Question, Sampling, BlockCalls], Coroutine[Any, Any, Reply]]


def read_block(question: Question, sampling: Sampling, calls: BlockCalls) -> Coroutine[Any, Any, Reply]:
    """A block is one request."""
    return calls.one(question.request(sampling), TABLE if question.prompt == TABLE_PROMPT else TEXT)


class VlmCalls:
    """The event loop, and the client that belongs to it."""

    def __init__(self, client: VlmClient, model: str) -> None:
        """``model``: its name at the server."""
        self.client = client
        self._model = model
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vlm-calls", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(client.open(), self._loop).result()

    def start(self, request_id: str, call: Callable[[BlockCalls], Coroutine[Any, Any, Reply]]) -> Future[Reply]:
        """The reply to a block, some day. ``call`` is called at once, in this thread."""
        reply = call(BlockCalls(self.client, self._model, request_id))
        return asyncio.run_coroutine_threadsafe(traces.within("block", reply, request_id=request_id), self._loop)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self.client.close(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
