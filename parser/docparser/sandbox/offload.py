# SPDX-License-Identifier: Apache-2.0
"""Jobs of child processes for an event loop: their files, and threads that wait for them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

import cgroup
from docparser.errors import disk_errors
from docparser.sandbox.pool import ChildPool, JobHandle
from docparser.sandbox.process import Bounds, Reach, Zygote
from docparser.settings import Settings

# Writes a job's input, in a thread; returns the files and folders that the job opens by their paths.
Fill = Callable[[BinaryIO], Iterable[str]]


class Offload:
    """Call ``start`` and ``close`` once each. Before ``start`` there is no process."""

    def __init__(self, settings: Settings, jobs: Mapping[str, str]) -> None:
        """``jobs`` are ``MODULE:FUNCTION`` by name. PARSER_CHILD_TASKS are at work at a time, others wait in order."""
        most = settings.child_tasks
        self._share = max(1, most // 2)
        self._turns: weakref.WeakValueDictionary[str, asyncio.Semaphore] = weakref.WeakValueDictionary()
        self._at_work: Counter[str] = Counter()
        self._folder = settings.spool_dir
        self._pool = ChildPool(lambda: Zygote.spawn(jobs), quick=max(1, min(cgroup.cores(), most // 2)), most=most)
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="offload")

    def start(self) -> None:
        """Start the zygote and a first child; returns at once."""
        self._threads.submit(self._pool.prepare)

    async def run(
        self, job: str, args: dict[str, Any], fill: Fill, bounds: Bounds, what: str, client: str = ""
    ) -> BinaryIO:
        """The output, to be read from its beginning. Each job has a child and a temporary folder to itself. ``client``
        has half of the places; its further jobs wait, and nobody else waits behind them. Jobs beside its first one are
        aside.

        Raises SpoolFull, and what ``ChildPool.run`` raises. When the caller is cancelled, the job's child ends.
        """
        if not client:
            return await self._offload(job, args, fill, bounds, what, aside=False)
        turn = self._turns.setdefault(client, asyncio.Semaphore(self._share))
        async with turn:
            aside = client in self._at_work
            self._at_work[client] += 1
            try:
                return await self._offload(job, args, fill, bounds, what, aside=aside)
            finally:
                self._at_work[client] -= 1
                self._at_work += Counter()  # drops clients that have none

    async def _offload(
        self, job: str, args: dict[str, Any], fill: Fill, bounds: Bounds, what: str, *, aside: bool
    ) -> BinaryIO:
        call = JobHandle()
        waiting = self._threads.submit(self._run, job, args, fill, bounds, what, call, aside)
        future = asyncio.wrap_future(waiting)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            call.cancel()
            if not waiting.cancel():
                future.add_done_callback(_close_output)
                await asyncio.wait([future])  # `fill` must not outlive what it reads
            raise

    def _run(
        self,
        job: str,
        args: dict[str, Any],
        fill: Fill,
        bounds: Bounds,
        what: str,
        call: JobHandle,
        aside: bool,
    ) -> BinaryIO:
        with contextlib.ExitStack() as stack:
            with disk_errors("result"):
                source = stack.enter_context(tempfile.TemporaryFile(prefix="docparser-", dir=self._folder))
                sink = stack.enter_context(tempfile.TemporaryFile(prefix="docparser-", dir=self._folder))
                folder = tempfile.TemporaryDirectory(prefix="docparser-", dir=self._folder)
                stack.enter_context(folder)
                try:
                    reach = Reach(tuple(fill(source)), folder.name)
                    source.flush()
                except OSError:
                    with contextlib.suppress(OSError):  # closing writes the rest to the full disk once more
                        source.close()
                    raise
            os.lseek(source.fileno(), 0, os.SEEK_SET)
            self._pool.run(job, args, (source.fileno(), sink.fileno()), bounds, what, call, reach, aside=aside)
            folder.cleanup()
            stack.pop_all()
            source.close()
            sink.seek(0)
            return sink

    def close(self) -> None:
        self._pool.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _close_output(future: asyncio.Future) -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().close()
