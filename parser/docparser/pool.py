# SPDX-License-Identifier: Apache-2.0
"""The worker processes: started, watched, and started again when they end."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import threading
from collections import Counter
from typing import Any, Protocol

from docparser.errors import ParserError
from docparser.settings import Settings
from docparser.tasks import Answer, VlmState
from docparser.worker_process import Lost, WorkerProcess

log = logging.getLogger(__name__)

RESTART_PAUSES_S = (0.0, 2.0, 5.0, 15.0, 30.0)


class State(enum.Enum):
    """RESTARTING: it was ready before, and soon will be again; so tasks wait for it. BROKEN: its models do not load."""

    STARTING = "its models are being loaded"
    READY = "ready"
    RESTARTING = "its worker process ended and is being started again"
    BROKEN = "its models cannot be loaded"


class Listener(Protocol):
    """Whom the pool tells, in the service's event loop."""

    def heard(self, worker: Worker, message: object) -> None: ...

    def lost(self, worker: Worker, on_task: int) -> None:
        """``on_task``: the number of the task that was computing; 0 if none was."""

    def hopeless(self) -> None:
        """No worker is ready, and none was before."""


class Worker:
    """One place in the pool; its process may be replaced."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.state = State.STARTING
        self.process: WorkerProcess | None = None
        self.restarts = 0
        self.vlm: VlmState | None = None

    def send(self, message: object) -> None:
        if self.process is not None:
            self.process.send(message)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()


class WorkerPool:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._trouble = ""
        self._threads: list[threading.Thread] = []
        self._listener: Listener | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._past_counts: Counter[str] = Counter()  # of processes that ended
        self.workers = [Worker(number) for number in range(settings.workers)]

    def start(self, listener: Listener) -> None:
        """Must be called in the event loop that the listener is told things in."""
        self._listener, self._loop = listener, asyncio.get_running_loop()
        self._threads = [
            threading.Thread(target=self._keep_alive, args=(worker,), name=f"worker-{worker.number}", daemon=True)
            for worker in self.workers
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Ends all workers; what they do is given up."""
        self._closing.set()
        with self._lock:
            for worker in self.workers:
                worker.kill()
        for thread in self._threads:
            thread.join(timeout=5.0)

    @property
    def ready(self) -> int:
        """How many workers have their models loaded."""
        return sum(worker.state is State.READY for worker in self.workers)

    @property
    def hopeful(self) -> bool:
        return any(worker.state in (State.READY, State.RESTARTING) for worker in self.workers)

    @property
    def restarts(self) -> int:
        return sum(worker.restarts for worker in self.workers)

    @property
    def not_ready_because(self) -> str:
        return self._trouble or next((w.state.value for w in self.workers if w.state is not State.READY), "")

    def vlm_counts(self) -> Counter[str]:
        """Totals of the VLM calls of all workers since the service's start."""
        with self._lock:
            present = [worker.vlm.counts for worker in self.workers if worker.vlm is not None]
            return sum((Counter(counts) for counts in present), Counter(self._past_counts))

    @property
    def last_vlm_answer(self) -> float:
        """When the VLM last answered a worker, ``time.monotonic()``."""
        return max((worker.vlm.last_answer for worker in self.workers if worker.vlm), default=float("-inf"))

    def _tell(self, method: Any, *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(method, *args)

    def _keep_alive(self, worker: Worker) -> None:
        """Body of a worker's thread: starts its process, again and again if need be, and reads what it says."""
        failures = 0
        while not self._closing.is_set():
            process = WorkerProcess(self._settings, f"worker-{worker.number}")
            with self._lock:
                worker.process = process
                if self._closing.is_set():  # close() has been through the processes already
                    process.kill()
            try:
                first = process.receive(self._settings.start_timeout_s)
                if isinstance(first, Answer):
                    raise first.value
            except (ParserError, TimeoutError, Lost) as exc:
                worker.state = State.BROKEN
                self._trouble = _describe_start(exc, self._settings)
                failures += 1
            else:
                worker.state = State.READY
                self._trouble, failures = "", 0
                self._listen(worker, process)
                worker.state = State.RESTARTING
                worker.restarts += 1
            with self._lock:
                if worker.vlm is not None:
                    self._past_counts.update(worker.vlm.counts)
                worker.process, worker.vlm = None, None
            process.end()
            if not self._closing.is_set():
                pause = RESTART_PAUSES_S[min(failures, len(RESTART_PAUSES_S) - 1)]
                log.error("worker-%d: %s; next start in %.0f s", worker.number, self.not_ready_because, pause)
                if not self.hopeful:
                    self._tell(self._listener.hopeless)
                self._closing.wait(pause)

    def _listen(self, worker: Worker, process: WorkerProcess) -> None:
        """Passes on what the process says, until it ends."""
        try:
            while True:
                message = process.receive()
                if isinstance(message, VlmState):
                    worker.vlm = message
                else:
                    self._tell(self._listener.heard, worker, message)
        except Lost:
            self._tell(self._listener.lost, worker, process.slot.task)
        except Exception:  # a message that cannot be read: the process was killed while it wrote
            log.exception("worker-%d: its pipe is broken", worker.number)
            self._tell(self._listener.lost, worker, process.slot.task)


def _describe_start(exc: Exception, settings: Settings) -> str:
    if isinstance(exc, ParserError):
        return str(exc)
    if isinstance(exc, TimeoutError):
        return f"the models were not loaded within {settings.start_timeout_s:.0f} s (PARSER_START_TIMEOUT_S)"
    return "a worker process ended while it loaded its models; the log says why"
