# SPDX-License-Identifier: Apache-2.0
"""Wakes the watchers of jobs when the database has changed, by this process or another."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from docparser.errors import DataDirFull, StorageUnavailable
from docparser.jobs.storage.transaction import Database

POLL_S = 0.2
EACH_S = 0.005  # between two watchers: each asks the database, and five hundred at once would make everybody wait


class Changes:
    """Polls the database once for all watchers of this process, and only while there are any."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # data_version is relative to a connection, and connections belong to threads.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="changes")
        self._watchers: set[asyncio.Event] = set()
        self._polling: asyncio.Task | None = None

    def close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
        self._thread.shutdown(wait=False)

    @contextlib.contextmanager
    def watching(self) -> Iterator[asyncio.Event]:
        """An event that is set after each change; the watcher clears it."""
        event = asyncio.Event()
        self._watchers.add(event)
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll())
        try:
            yield event
        finally:
            self._watchers.discard(event)

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        last: object = None
        while self._watchers:
            try:
                version: object = await loop.run_in_executor(self._thread, self._database.version)
            except (StorageUnavailable, DataDirFull):
                version = last
            if version != last:
                last = version
                for event in [*self._watchers]:
                    event.set()
                    await asyncio.sleep(EACH_S)
            await asyncio.sleep(POLL_S)
