# SPDX-License-Identifier: Apache-2.0
"""A scheduler with workers that only record their orders, for use inside a running loop."""

from __future__ import annotations

import asyncio
from typing import Any

from docparser.documents.spool import Document
from docparser.parsing.fair_queue import Flow
from docparser.parsing.pool import PooledWorker, State, WorkerPool
from docparser.parsing.scheduler import PageScheduler
from docparser.settings import Settings
from docparser.worker.messages import Answer, CountPages, ParsePage, ReadingIsSlow, RequestTask, RunTask
from docparser.worker.process import HolderSlot, SharedSlot, WorkerProcess


class Process(WorkerProcess):
    """A simulated process: only its slot is there."""

    def __init__(self) -> None:
        self.shared = SharedSlot()
        self.slot = HolderSlot(self.shared)

    def hold(self, task: int, seconds: float, used: float = 1.0) -> None:
        """Let ``task`` have had the baton for so long, and the CPU for this part of it."""
        self.slot.set(task)
        self.shared[1] -= seconds
        self.used_s = used * seconds

    @property
    def holder_cpu_s(self) -> float:
        return self.used_s


class NamedWorker(PooledWorker):
    """A simulated worker that records its orders."""

    def __init__(self, number: int):
        super().__init__(number)
        self.state = State.READY
        self.process = self.simulated = Process()
        self.told: list[Any] = []
        self.killed = False

    def send(self, message):
        self.told.append(message)

    def kill(self):
        self.killed = True

    @property
    def tasks(self):
        return [message.task for message in self.told if isinstance(message, RunTask)]


class Bench:
    """A scheduler with ``count`` named workers, for use inside a running loop."""

    def __init__(self, count: int = 1, **settings):
        own = Settings(workers=count, **settings)
        self.pool = WorkerPool(own)
        self.workers = [NamedWorker(number) for number in range(count)]
        self.pool.workers = [*self.workers]
        self.scheduler = PageScheduler(own, self.pool)

    def send(self, client: str, *names: str) -> list[asyncio.Task]:
        """Documents of one page each, each in a request of its own."""
        return [self.submit(name, Flow(client)) for name in names]

    def last(self, name: str, number: int = 0) -> RunTask:
        return [run for run, path in self.runs(number) if path == name][-1]

    def runs(self, number: int = 0) -> list[tuple[RunTask, str]]:
        """What a worker was told to do, and with which document."""
        runs = [message for message in self.workers[number].told if isinstance(message, RunTask)]
        return [(run, run.task.document.path) for run in runs if isinstance(run.task, (CountPages, ParsePage))]

    def slow(self, name: str, number: int = 0) -> None:
        """The worker finds this document slow."""
        self.scheduler.on_message(self.workers[number], ReadingIsSlow(self.last(name, number).number, 2.0))

    def apart(self, number: int = 0) -> list[str]:
        return [path for run, path in self.runs(number) if run.apart]

    def submit(self, name: str, flow: Flow, kind=ParsePage) -> asyncio.Task:
        document = Document(name, "PDF")
        task = kind(document) if kind is CountPages else kind(document, 0, None)
        return asyncio.ensure_future(self.scheduler.submit(task, flow))

    def want(self, number: int = 0) -> None:
        self.scheduler.on_message(self.workers[number], RequestTask())

    def answer(self, value, number: int = 0, name: str = "", used_s: float = 0.5) -> None:
        worker = self.workers[number]
        last = [message for message in worker.told if isinstance(message, RunTask)][-1]
        run = self.last(name, number) if name else last
        self.scheduler.on_message(worker, Answer(run.number, value, used_s))

    def order(self, number: int = 0) -> list[str]:
        return [task.document.path for task in self.workers[number].tasks]


def in_loop(test):
    def run():
        asyncio.run(asyncio.wait_for(test(), 10))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run
