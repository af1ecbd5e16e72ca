# SPDX-License-Identifier: Apache-2.0
"""Wakes those who watch a job when anything in the database has changed, in this process or another."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor

from docparser.jobs.database import Database

LOOK_S = 0.2


class Changes:
    """One look at the database for all watchers of this process; none while nobody watches."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # data_version is relative to a connection, and connections belong to threads.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="changes")
        self._watchers: set[asyncio.Event] = set()
        self._looking: asyncio.Task | None = None

    def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        self._thread.shutdown(wait=False)

    @contextlib.contextmanager
    def watching(self):
        """An event that is set after each change; who waits clears it."""
        event = asyncio.Event()
        self._watchers.add(event)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            yield event
        finally:
            self._watchers.discard(event)

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        last = None
        while self._watchers:
            version = await loop.run_in_executor(self._thread, self._database.version)
            if version != last:
                last = version
                for event in self._watchers:
                    event.set()
            await asyncio.sleep(LOOK_S)
