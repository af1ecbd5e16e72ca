# SPDX-License-Identifier: Apache-2.0
"""The pool of worker processes, which all requests share. A task is at most one page."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import itertools
import logging
import queue
import threading
from typing import Any

from docparser.errors import NotReady, PageTimeout, ParserError, WorkerLost
from docparser.settings import Settings
from docparser.tasks import ParsePage, Task
from docparser.worker_process import Lost, WorkerProcess

log = logging.getLogger(__name__)

TRIES = 2  # of one task, if the worker process ends on it
RESTART_PAUSES_S = (0.0, 2.0, 5.0, 15.0, 30.0)


class State(enum.Enum):
    """RESTARTING: it was ready before, and soon will be again; so tasks wait for it. BROKEN: its models do not load."""

    STARTING = "its models are being loaded"
    READY = "ready"
    RESTARTING = "its worker process ended and is being started again"
    BROKEN = "its models cannot be loaded"


@dataclasses.dataclass(eq=False)
class Job:
    task: Task
    future: asyncio.Future
    tries: int = 0

    def settle(self, outcome: Any) -> None:
        """Sets the future's result or exception, from a worker's thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.future.get_loop().call_soon_threadsafe(self._settle, outcome)

    def _settle(self, outcome: Any) -> None:
        if self.future.done():
            return
        if isinstance(outcome, BaseException):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)


class WorkerPool:
    """``submit`` gives a task to the next free worker; opening documents goes before pages."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._jobs: queue.PriorityQueue[tuple[int, int, Job | None]] = queue.PriorityQueue()
        self._order = itertools.count()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._processes: dict[int, WorkerProcess] = {}
        self._states = dict.fromkeys(range(settings.workers), State.STARTING)
        self._trouble = ""
        self._threads = [
            threading.Thread(target=self._keep_alive, args=(number,), name=f"worker-{number}", daemon=True)
            for number in range(settings.workers)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Ends all workers; a page that is being parsed is given up."""
        self._closing.set()
        for _ in self._threads:
            self._jobs.put((-1, next(self._order), None))
        with self._lock:
            for process in self._processes.values():
                process.kill()
        for thread in self._threads:
            thread.join(timeout=5.0)

    @property
    def ready(self) -> int:
        """How many workers have their models loaded."""
        return sum(state is State.READY for state in self._states.values())

    @property
    def not_ready_because(self) -> str:
        return self._trouble or next((s.value for s in self._states.values() if s is not State.READY), "")

    async def submit(self, task: Task) -> Any:
        """The worker's answer. Raises ParserError; NotReady at once if no worker has its models and none had them
        before. A task whose caller was cancelled is not begun."""
        if not self._hopeful:
            raise NotReady(f"The parser is not ready: {self.not_ready_because}")
        job = Job(task, asyncio.get_running_loop().create_future())
        self._enqueue(job, urgent=not isinstance(task, ParsePage))
        return await job.future

    @property
    def _hopeful(self) -> bool:
        return any(state in (State.READY, State.RESTARTING) for state in self._states.values())

    def _enqueue(self, job: Job, *, urgent: bool) -> None:
        self._jobs.put((0 if urgent else 1, next(self._order), job))

    def _keep_alive(self, number: int) -> None:
        """Body of a worker's thread: starts its process, again and again if need be, and feeds it."""
        failures = 0
        while not self._closing.is_set():
            process = WorkerProcess(self._settings, f"worker-{number}")
            with self._lock:
                self._processes[number] = process
                if self._closing.is_set():  # close() has been through the processes already
                    process.kill()
            try:
                process.receive(self._settings.start_timeout_s)
            except (ParserError, TimeoutError, Lost) as exc:
                self._states[number] = State.BROKEN
                self._trouble = _describe_start(exc, self._settings)
                failures += 1
            else:
                self._states[number] = State.READY
                self._trouble, failures = "", 0
                self._feed(process)
                self._states[number] = State.RESTARTING
            with self._lock:
                del self._processes[number]
            process.end()
            if not self._closing.is_set():
                pause = RESTART_PAUSES_S[min(failures, len(RESTART_PAUSES_S) - 1)]
                log.error("worker-%d: %s; next start in %.0f s", number, self.not_ready_because, pause)
                self._refuse_if_hopeless()
                self._closing.wait(pause)

    def _feed(self, process: WorkerProcess) -> None:
        """Gives ``process`` one job after the other, until it is lost or the pool is closed."""
        while not self._closing.is_set():
            job = self._jobs.get()[2]
            if job is None:
                return
            if job.future.cancelled():
                continue
            job.tries += 1
            try:
                process.send(job.task)
                job.settle(process.receive(self._settings.page_timeout_s))
            except ParserError as exc:
                job.settle(exc)
            except TimeoutError:
                limit = self._settings.page_timeout_s
                job.settle(PageTimeout(f"The page was given up after {limit:.0f} s (PARSER_PAGE_TIMEOUT_S)."))
                return
            except Lost:
                if self._closing.is_set():
                    job.settle(NotReady("The parser is shutting down."))
                elif job.tries < TRIES:
                    self._enqueue(job, urgent=True)
                else:
                    job.settle(WorkerLost(f"The worker process ended on this page {TRIES} times; it was given up."))
                return

    def _refuse_if_hopeless(self) -> None:
        """Answers the jobs that wait, if no worker will."""
        while not self._hopeful and not self._jobs.empty():
            job = self._jobs.get()[2]
            if job is not None:
                job.settle(NotReady(f"The parser is not ready: {self.not_ready_because}"))


def _describe_start(exc: Exception, settings: Settings) -> str:
    if isinstance(exc, ParserError):
        return str(exc)
    if isinstance(exc, TimeoutError):
        return f"the models were not loaded within {settings.start_timeout_s:.0f} s (PARSER_START_TIMEOUT_S)"
    return "a worker process ended while it loaded its models; the log says why"
