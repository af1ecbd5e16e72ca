# SPDX-License-Identifier: Apache-2.0
"""Works on jobs: claims steps from the queue in the database, and has them done (``step_work``).

Every service process that shares the data directory runs one. A step is finished when its page is on the disk and the
database says so. Until then it belongs to this process, and to another one if this process dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import Counter
from typing import Any

from docparser.clients.allowance import Allowance
from docparser.contract.request_parts import is_bulk
from docparser.errors import DataDirFull, ParserError, StorageUnavailable
from docparser.jobs.result import Damage
from docparser.jobs.step_work import StepWork
from docparser.jobs.storage.files import JobFiles
from docparser.jobs.storage.job_order import Eligible
from docparser.jobs.storage.queue import Claim, StepQueue
from docparser.jobs.storage.retention import Retention
from docparser.jobs.storage.store import JobStore
from docparser.models.readiness import Readiness
from docparser.parsing.fair_queue import BulkShare
from docparser.parsing.service import ParseService
from docparser.settings import Settings

log = logging.getLogger(__name__)

POLL_S = 0.5  # between two looks for work and for cancelled jobs, which other processes may have received
RECLAIM_S = 5.0  # between two looks for dead processes
SWEEP_S = 60.0  # between two looks for jobs whose retention ended
CLEAN_S = 86_400.0  # between two looks for leftovers, which only cost space
PAUSE_S = 1.0  # between two checks whether models and disk are back
WATCHED_STEPS = 8  # begun steps of a client whose documents are slow to read


class JobRunner:
    """Call ``start`` and ``close`` once each, in the service's event loop; ``wake`` when there is new work."""

    def __init__(
        self,
        settings: Settings,
        service: ParseService,
        readiness: Readiness,
        store: JobStore,
        queue: StepQueue,
        files: JobFiles,
        retention: Retention,
        allowance: Allowance,
        damage: Damage,
    ) -> None:
        self._service = service
        self._readiness = readiness
        self._queue = queue
        self._files = files
        self._retention = retention
        self._steps = StepWork(service, readiness, store, queue, files, allowance, damage, self._pause)
        self._max_running = settings.pages_at_once
        self._bulk_share = BulkShare(settings.bulk_share)
        self._running: dict[asyncio.Task, Claim] = {}
        self._awake = asyncio.Event()
        self._paused_by = ""
        self._closing = threading.Event()
        self._loops: list[asyncio.Task] = []

    def start(self) -> None:
        for loop in (
            self._work(),
            self._every(POLL_S, self._drop_cancelled),
            self._every(RECLAIM_S, self._reclaim),
            self._every(SWEEP_S, self._sweep),
            self._every(CLEAN_S, self._remove_leftovers),
        ):
            self._loops.append(asyncio.create_task(loop))

    async def close(self) -> None:
        """Stop; the steps that this process has go back to the queue."""
        self._closing.set()
        tasks = [*self._loops, *self._running]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        self._awake.set()

    @property
    def paused_by(self) -> str:
        """Why this process cannot work on jobs, in words; "" if it can."""
        return self._paused_by

    async def _work(self) -> None:
        while True:
            try:
                if self._paused_by:
                    await self._wait_until_able()
                    # The answer to a claim may have been lost with the database.
                    await asyncio.to_thread(self._queue.keep_only, list(self._running.values()))
                while self._has_room() and (claim := await asyncio.to_thread(self._claim, self._eligible())):
                    self._bulk_share.begun(bulk=is_bulk(claim.job.flow))
                    task = asyncio.create_task(self._steps.do(claim))
                    self._running[task] = claim
                    task.add_done_callback(self._ended)
            except asyncio.CancelledError:
                raise
            except (DataDirFull, StorageUnavailable) as exc:
                self._pause(exc)
            except Exception:
                log.exception("the queue of jobs cannot be read")
                await asyncio.sleep(PAUSE_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._awake.wait()
            self._awake.clear()

    def _has_room(self) -> bool:
        """Steps of clients with slow documents do not count, so that they never keep other clients' steps out."""
        return sum(not self._service.watches(claim.job.flow) for claim in self._running.values()) < self._max_running

    def _eligible(self) -> Eligible:
        """No further step of a client that has enough, and no bulk step for the last place, which is kept for an
        interactive one."""
        begun = Counter(claim.job.flow for claim in self._running.values())
        full = [flow for flow, steps in begun.items() if steps >= WATCHED_STEPS and self._service.watches(flow)]
        if sum(steps for flow, steps in begun.items() if is_bulk(flow)) >= max(1, self._max_running - 1):
            return Eligible(full, "none")
        return Eligible(full, "first" if self._bulk_share.bulk_first else "last")

    def _claim(self, eligible: Eligible) -> Claim | None:
        self._files.check_room()
        return self._queue.claim(eligible)

    def _ended(self, task: asyncio.Task) -> None:
        self._running.pop(task, None)
        self.wake()

    async def _wait_until_able(self) -> None:
        """Wait for the models and for room on the disk. Without this wait, pages would be parsed again and again."""
        while self._paused_by:
            _, problems = await self._readiness.check()
            try:
                await asyncio.to_thread(self._files.check_room)
            except (DataDirFull, StorageUnavailable) as exc:
                problems += [str(exc)] if str(exc) not in problems else []
            self._paused_by = " ".join(problems)
            if self._paused_by:
                await asyncio.sleep(PAUSE_S)
        log.info("jobs go on")

    def _pause(self, exc: ParserError) -> None:
        if not self._paused_by:
            log.warning("jobs pause: %s", exc)
        self._paused_by = str(exc)

    async def _drop_cancelled(self) -> None:
        claims = list(self._running.values())
        gone = await asyncio.to_thread(self._queue.cancelled, claims) if claims else []
        for task, claim in list(self._running.items()):
            if claim in gone:
                task.cancel()
        self._steps.keep_flows(claim.job.flow for claim in self._running.values())

    async def _reclaim(self) -> None:
        count = await asyncio.to_thread(self._queue.reclaim)
        if count:
            log.warning("%d steps of ended processes are back in the queue", count)
            self.wake()

    async def _sweep(self) -> None:
        if not self._running and not self._paused_by:
            self._steps.forget_suspects()
        removed = await asyncio.to_thread(self._retention.sweep)
        if removed:
            log.info("retention: %d jobs removed", removed)

    async def _remove_leftovers(self) -> None:
        await asyncio.to_thread(self._retention.remove_leftovers, self._closing.is_set)

    async def _every(self, seconds: float, action: Any) -> None:
        while True:
            try:
                await action()
            except StorageUnavailable:
                pass  # the keeper reports it once
            except ParserError as exc:
                log.error("%s", exc)
            except Exception:
                log.exception("%s", action.__name__)
            await asyncio.sleep(seconds)
