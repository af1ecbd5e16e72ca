# SPDX-License-Identifier: Apache-2.0
"""Pages of all documents, handed to workers as these become free.

A document's tasks form a flow. A worker that wants work gets the next task of the flow that has the fewest tasks with
workers, so a document of one page does not wait for the end of one of 500. Nothing is given out ahead of time: what a
worker has not asked for can still go to another, and is not begun if its client leaves.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import itertools
import logging
import time
from typing import Any

from docparser.errors import DocumentTooLarge, NotReady, PageTimeout, ParserError, WorkerLost
from docparser.pool import Worker, WorkerPool
from docparser.settings import Settings
from docparser.tasks import Answer, Do, Forget, ParsedPage, ParsePage, Task, Want

log = logging.getLogger(__name__)

DEATHS = 2  # of workers while they computed on a task, until it is given up
LOSSES = 6  # of workers that had the task, whatever they were computing on
WATCH_S = 0.5
FORGET_S = 20.0  # a worker that has not let go of a task by then is stuck


@dataclasses.dataclass(eq=False)
class Item:
    number: int
    task: Task
    flow: Flow
    future: asyncio.Future
    queued: float
    worker: Worker | None = None
    given: float = 0.0
    forgotten: float | None = None
    deaths: int = 0
    losses: int = 0


@dataclasses.dataclass(eq=False)
class Flow:
    """The tasks of one document. ``given`` of them are with workers; ``turn`` is when it last got one."""

    pending: collections.deque[Item] = dataclasses.field(default_factory=collections.deque)
    given: int = 0
    turn: int = 0


class PageScheduler:
    """The pool's listener. All methods are for its event loop."""

    def __init__(self, settings: Settings, pool: WorkerPool) -> None:
        self._settings = settings
        self._pool = pool
        self._numbers = itertools.count(1)
        self._turns = itertools.count(1)
        self._flows: dict[Flow, None] = {}  # those with pending items
        self._given: dict[int, Item] = {}
        self._wanting: dict[Worker, None] = {}
        self._watcher: asyncio.Task | None = None
        self.page_retries = 0

    def start(self) -> None:
        self._pool.start(self)
        self._watcher = asyncio.create_task(self._watch())

    async def close(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
        await asyncio.to_thread(self._pool.close)
        self._fail_all("The parser is shutting down.")

    @property
    def queued(self) -> int:
        return sum(len(flow.pending) for flow in self._flows)

    @property
    def oldest_s(self) -> float:
        """Seconds that the oldest queued task has waited."""
        now = time.monotonic()
        return max((now - flow.pending[0].queued for flow in self._flows if flow.pending), default=0.0)

    @property
    def given(self) -> int:
        return len(self._given)

    async def submit(self, task: Task, flow: Flow) -> Any:
        """The worker's answer. Raises ParserError; NotReady at once if no worker has its models and none had them
        before. When the caller is cancelled, so is the task, wherever it is."""
        if not self._pool.hopeful:
            raise NotReady(f"The parser is not ready: {self._pool.not_ready_because}")
        future = asyncio.get_running_loop().create_future()
        item = Item(next(self._numbers), task, flow, future, time.monotonic())
        flow.pending.append(item)
        self._flows[flow] = None
        self._hand_out()
        try:
            return await future
        finally:
            if not future.done() or future.cancelled():
                self._forget(item)

    # What the pool says.

    def heard(self, worker: Worker, message: object) -> None:
        if isinstance(message, Want):
            self._wanting[worker] = None
            self._hand_out()
        elif isinstance(message, Answer):
            item = self._given.pop(message.number, None)
            if item is not None:
                item.flow.given -= 1
                if isinstance(message.value, ParsedPage):
                    message.value.seconds["queue"] = item.given - item.queued
                settle(item.future, message.value)

    def lost(self, worker: Worker, on_task: int) -> None:
        self._wanting.pop(worker, None)
        for item in [item for item in self._given.values() if item.worker is worker]:
            del self._given[item.number]
            item.flow.given -= 1
            item.worker = None
            item.losses += 1
            item.deaths += item.number == on_task
            if item.future.done():
                continue
            if item.deaths >= DEATHS:
                settle(
                    item.future, WorkerLost(f"The worker process ended on this page {DEATHS} times; it was given up.")
                )
            elif item.losses >= LOSSES:
                settle(item.future, WorkerLost(f"The worker process that had this page ended {LOSSES} times."))
            else:
                self.page_retries += 1
                item.flow.pending.appendleft(item)
                self._flows[item.flow] = None
        if self._pool.hopeful:
            self._hand_out()
        else:
            self.hopeless()

    def hopeless(self) -> None:
        self._fail_all(f"The parser is not ready: {self._pool.not_ready_because}")

    def _fail_all(self, message: str) -> None:
        for item in [*self._given.values(), *(item for flow in self._flows for item in flow.pending)]:
            settle(item.future, NotReady(message))
        for flow in self._flows:
            flow.pending.clear()
        self._flows.clear()

    # Giving out and taking back.

    def _hand_out(self) -> None:
        while self._wanting and (item := self._next()) is not None:
            load = collections.Counter(other.worker for other in self._given.values())
            worker = min(self._wanting, key=lambda worker: load[worker])
            del self._wanting[worker]
            item.worker, item.given = worker, time.monotonic()
            item.flow.given += 1
            item.flow.turn = next(self._turns)
            self._given[item.number] = item
            worker.send(Do(item.number, item.task))

    def _next(self) -> Item | None:
        """Documents are opened first: that is short, and tells what is wrong with them. Then by fewest with workers."""
        if not self._flows:
            return None
        flow = min(self._flows, key=lambda f: (isinstance(f.pending[0].task, ParsePage), f.given, f.turn))
        item = flow.pending.popleft()
        if not flow.pending:
            del self._flows[flow]
        return item

    def _forget(self, item: Item) -> None:
        if item.number in self._given:
            item.forgotten = time.monotonic()
            item.worker.send(Forget(item.number))
        else:
            with contextlib.suppress(ValueError):
                item.flow.pending.remove(item)
            if not item.flow.pending:
                self._flows.pop(item.flow, None)

    async def _watch(self) -> None:
        """Ends what takes too long: a page as a whole, a step of it on the CPU, a worker that does not let go."""
        while True:
            await asyncio.sleep(WATCH_S)
            try:
                self._look()
            except Exception:
                log.exception("the watch over workers failed")

    def _look(self) -> None:
        now, limits = time.monotonic(), self._settings
        for item in list(self._given.values()):
            if item.forgotten is None and now - item.given > limits.page_timeout_s:
                settle(item.future, PageTimeout(
                    f"The page was given up after {limits.page_timeout_s:.0f} s (PARSER_PAGE_TIMEOUT_S)."))  # fmt: skip
                self._forget(item)
        for worker in self._pool.workers:
            if worker.process is None:
                continue
            slot = worker.process.slot
            computing = self._given.get(slot.task)
            if computing is not None and slot.held_s > limits.step_timeout_s:
                settle(
                    computing.future,
                    DocumentTooLarge(
                        f"file: one step of the page took more than {limits.step_timeout_s:.0f} s (PARSER_STEP_TIMEOUT_S)"
                    ),
                )
                log.error("worker-%d: stuck in a step of task %d; it is replaced", worker.number, computing.number)
                worker.kill()
            elif (
                any(
                    item.worker is worker and item.forgotten is not None and now - item.forgotten > FORGET_S
                    for item in self._given.values()
                )
                and not slot.task
            ):
                log.error("worker-%d: does not let go of a task; it is replaced", worker.number)
                worker.kill()


def settle(future: asyncio.Future, outcome: Any) -> None:
    if future.done():
        return
    if isinstance(outcome, ParserError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
