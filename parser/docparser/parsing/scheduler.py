# SPDX-License-Identifier: Apache-2.0
"""Pages of all documents, assigned to workers as these become free.

A document's tasks form a flow; so do the tasks of one client's jobs (``storage/job_order`` chooses those). A worker
requests a task when it has room for one (``worker/task_runner``), and the ``fair_queue`` tells which one. No task is
assigned before a worker requests it: until then it can go to any worker, and it is not begun if its client leaves.
"""

from __future__ import annotations

import asyncio
import collections
import itertools
import logging
import time
from collections.abc import Callable
from typing import Any

from docparser import traces
from docparser.documents.spool import Document
from docparser.errors import (
    InternalError,
    NotReady,
    PageTimeout,
    ParserError,
    StepTooSlow,
    VlmUnavailable,
    WorkerLost,
)
from docparser.parsing.fair_queue import FairQueue, Flow, QueuedTask
from docparser.parsing.pool import PooledWorker, WorkerPool
from docparser.settings import Settings
from docparser.worker.messages import (
    Answer,
    CancelTask,
    PagesGoOn,
    ParsedPage,
    ParsePage,
    PartOfPage,
    ReadingEnded,
    ReadingIsSlow,
    RequestTask,
    RunTask,
    Task,
)

log = logging.getLogger(__name__)

DEATHS = 2  # of workers while they compute on a task; then it fails
LOSSES = 6  # of workers that have the task, whatever they compute on; then it fails
LEAST_USED = 0.5  # of a step's time, in CPU time: a step that got less may be a good one
CHECK_S = 0.5
CANCEL_GRACE_S = 20.0  # a worker that has not ended a cancelled task by then is stuck


class PageScheduler:
    """The pool's listener. Call all methods in the service's event loop."""

    def __init__(self, settings: Settings, pool: WorkerPool) -> None:
        self._settings = settings
        self._pool = pool
        self._numbers = itertools.count(1)
        self._queue = FairQueue(settings.workers, settings.pages_at_once, settings.bulk_share)
        self._assigned: dict[int, QueuedTask] = {}
        self._requesting: dict[PooledWorker, None] = {}
        self._checker: asyncio.Task | None = None
        self.page_retries = 0

    def start(self) -> None:
        self._pool.start(self)
        self._checker = asyncio.create_task(self._check_regularly())

    async def close(self) -> None:
        if self._checker is not None:
            self._checker.cancel()
        await asyncio.to_thread(self._pool.close)
        self._fail_all("The parser is shutting down.")

    @property
    def queued(self) -> int:
        return len(self._queue.waiting()) + self.parked

    @property
    def oldest_s(self) -> float:
        """Seconds that the oldest queued task has waited; those that were put back because they are slow left out."""
        now = time.monotonic()
        return max((now - item.queued_at for item in self._queue.waiting()), default=0.0)

    @property
    def assigned(self) -> int:
        return len(self._assigned)

    @property
    def slow(self) -> int:
        """Tasks that workers have whose documents are slow to read."""
        return self._queue.slow

    @property
    def parked(self) -> int:
        """Tasks that were put back because their documents are slow to read."""
        return len(self._queue.put_back())

    def watches(self, client: str) -> bool:
        return self._queue.watches(client)

    async def submit(self, task: Task, flow: Flow, on_part: Callable[[PartOfPage], None] | None = None) -> Any:
        """The worker's answer; ``on_part`` gets what comes before it. Raises ParserError; NotReady at once if the pool
        accepts no tasks.

        When the caller is cancelled, the task is cancelled too, queued or assigned.
        """
        if not self._pool.accepts_tasks:
            raise NotReady(f"The parser is not ready: {self._pool.not_ready_because}")
        future = asyncio.get_running_loop().create_future()
        item = QueuedTask(next(self._numbers), task, flow, future, time.monotonic(), on_part)
        self._queue.add(item)
        self._dispatch()
        try:
            return await future
        finally:
            if not future.done() or future.cancelled():
                self._cancel(item)

    def give_up(self, document: Document, error: ParserError) -> None:
        """End the document's tasks that no worker has."""
        for item in [*self._queue.waiting(), *self._queue.put_back()]:
            if item.document == document:
                self._queue.remove(item)
                item.resolve(error)

    # Events of the pool.

    def on_message(self, worker: PooledWorker, message: object) -> None:
        if isinstance(message, RequestTask):
            self._requesting[worker] = None
            self._dispatch()
        elif isinstance(message, Answer):
            if isinstance(message.value, VlmUnavailable):
                self._pool.vlm_lost()
            item = self._assigned.pop(message.number, None)
            if item is not None:
                self._queue.ended(item, message.used_s)
                if isinstance(message.value, ParsedPage):
                    message.value.seconds["queue"] = item.assigned_at - item.queued_at
                item.resolve(message.value)
                self._dispatch()
        elif isinstance(message, PartOfPage):
            item = self._assigned.get(message.number)
            if item is not None and item.on_part is not None and not item.future.done():
                item.on_part(message)
        elif isinstance(message, PagesGoOn):
            for number in message.numbers & self._assigned.keys():
                self._assigned[number].went_on_at = time.monotonic()
        elif isinstance(message, ReadingIsSlow):
            item = self._assigned.get(message.number)
            if item is not None and not self._queue.found_slow(item):
                self._put_back(item, message.used_s)
        elif isinstance(message, ReadingEnded):
            item = self._assigned.get(message.number)
            if item is not None:
                self._queue.read(item)
                self._dispatch()

    def on_worker_lost(self, worker: PooledWorker, on_task: int) -> None:
        self._requesting.pop(worker, None)
        for item in [item for item in self._assigned.values() if item.worker is worker]:
            del self._assigned[item.number]
            self._queue.ended(item, time.monotonic() - item.assigned_at if item.number == on_task else None)
            item.worker = None
            item.losses += 1
            item.deaths += item.number == on_task
            if item.future.done():
                continue
            if item.deaths >= DEATHS:
                item.resolve(
                    WorkerLost(f"The worker process ended on this page {DEATHS} times; it is not tried again.")
                )
            elif item.losses >= LOSSES:
                item.resolve(WorkerLost(f"The worker process that had this page ended {LOSSES} times."))
            else:
                self.page_retries += 1
                self._queue.add(item, first=True)
        if self._pool.accepts_tasks:
            self._dispatch()
        else:
            self.on_no_worker_left()

    def on_no_worker_left(self) -> None:
        self._fail_all(f"The parser is not ready: {self._pool.not_ready_because}")

    def _fail_all(self, message: str) -> None:
        for item in [*self._assigned.values(), *self._queue.clear()]:
            item.resolve(NotReady(message))

    # Assignment and cancellation.

    def _dispatch(self) -> None:
        while self._requesting and (chosen := self._queue.next()) is not None:
            item, apart = chosen
            load = collections.Counter(other.worker for other in self._assigned.values())
            worker = min(self._requesting, key=lambda worker: load[worker])
            del self._requesting[worker]
            item.worker, item.assigned_at = worker, time.monotonic()
            item.went_on_at = item.assigned_at
            self._assigned[item.number] = item
            if isinstance(item.task, ParsePage):
                traces.past("queue", item.assigned_at - item.queued_at, item.task.trace)
            try:
                worker.send(RunTask(item.number, item.task, apart))
            except Exception:  # it cannot be pickled, for instance because it is nested too deeply
                log.error("a task cannot be sent to a worker", exc_info=True)
                self._requesting[worker] = None
                self.on_message(worker, Answer(item.number, InternalError("The parser cannot pass this request on.")))

    def _put_back(self, item: QueuedTask, used_s: float) -> None:
        """Its client has enough slow documents with workers; it begins again when one of them has ended."""
        assert item.worker is not None, "a worker has just reported it"
        del self._assigned[item.number]
        item.worker.send(CancelTask(item.number))
        self._queue.ended(item, used_s)
        if not item.future.done():
            item.worker, item.number = None, next(self._numbers)  # what the worker still answers is ignored
            self._queue.add(item)
        self._dispatch()

    def _cancel(self, item: QueuedTask) -> None:
        if item.number in self._assigned:
            assert item.worker is not None, "_dispatch assigns a task and its worker together"
            item.cancelled_at = time.monotonic()
            item.worker.send(CancelTask(item.number))
        else:
            self._queue.remove(item)

    async def _check_regularly(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            try:
                self.check()
            except Exception:
                log.exception("checking the workers' time limits failed")

    def check(self) -> None:
        """End what takes too long: pages that do not go on, steps, and workers that are stuck. Joins and openings never
        ask the VLM, and have bounds of their own."""
        now, limit_s = time.monotonic(), self._settings.page_timeout_s
        for item in list(self._assigned.values()):
            wanted = isinstance(item.task, ParsePage) and item.cancelled_at is None
            if wanted and now - item.went_on_at > limit_s:
                words = f"The page was given up, because it did not go on for {limit_s:.0f} s"
                item.resolve(PageTimeout(f"{words} (PARSER_PAGE_TIMEOUT_S)."))
                self._cancel(item)
        for worker in self._pool.workers:
            self._check_worker(worker, now)

    def _check_worker(self, worker: PooledWorker, now: float) -> None:
        if worker.process is None:
            return
        slot, limit_s = worker.process.slot, self._settings.step_timeout_s
        computing = self._assigned.get(slot.task)
        cancelled = [item.cancelled_at for item in self._assigned.values() if item.worker is worker]
        if computing is not None and slot.held_s > limit_s:
            words = f"file: one step of the page took more than {limit_s:.0f} s (PARSER_STEP_TIMEOUT_S)"
            if (used_s := worker.process.holder_cpu_s) < LEAST_USED * limit_s:
                words += f" and got {used_s:.1f} s of CPU time; the machine is too busy, or was paused; send it again"
                computing.resolve(PageTimeout(words))
            else:
                computing.resolve(StepTooSlow(words))
            log.error("worker-%d: stuck in a step of task %d; it is replaced", worker.number, computing.number)
            worker.kill()
        elif any(since is not None and now - since > CANCEL_GRACE_S for since in cancelled) and not slot.task:
            log.error("worker-%d: does not end a cancelled task; it is replaced", worker.number)
            worker.kill()
