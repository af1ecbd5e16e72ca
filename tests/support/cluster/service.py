# SPDX-License-Identifier: Apache-2.0
"""A Service's address: connections go to one of its pods, each to any, as with kube-proxy."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable

from tests.support.relay import carry

Address = tuple[str, int]


class ServiceProxy:
    """`pods` gives the addresses that connections may go to; with none a connection is closed at once."""

    def __init__(self, address: Address, pods: Callable[[], list[Address]]) -> None:
        self._address, self._pods = address, pods
        self._loop = asyncio.new_event_loop()
        began = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(began,), daemon=True)
        self._thread.start()
        assert began.wait(10), f"nobody can listen at {address}"

    def _run(self, began: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connected, *self._address))
        began.set()
        self._loop.run_forever()
        server.close()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _connected(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        pods = self._pods()
        try:
            far, onwards = await asyncio.open_connection(*random.choice(pods))
        except (OSError, IndexError):
            back.transport.abort()  # a reset, which is what a refusal is to a client
            return
        await asyncio.gather(carry(near, onwards), carry(far, back))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
