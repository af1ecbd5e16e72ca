# SPDX-License-Identifier: Apache-2.0
"""The worker processes: started, watched, and started again when they end."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from docparser.errors import ParserError
from docparser.settings import Settings
from docparser.worker.messages import Answer, Ready, ServersState
from docparser.worker.process import ProcessEnded, WorkerProcess

log = logging.getLogger(__name__)

RESTART_PAUSES_S = (0.0, 2.0, 5.0, 15.0, 30.0)
# Starts that failed, of a pool that never had a worker.
GIVE_UP_AFTER = 3


class State(enum.Enum):
    """RESTARTING: the worker was ready before and soon will be again, so tasks wait. BROKEN: its models do not load."""

    STARTING = "its models are being loaded"
    READY = "ready"
    RESTARTING = "its worker process ended and is being started again"
    BROKEN = "its models cannot be loaded"


class PoolListener(Protocol):
    """Gets the pool's events, in the service's event loop."""

    def on_message(self, worker: PooledWorker, message: object) -> None:
        """A RequestTask or an Answer."""

    def on_worker_lost(self, worker: PooledWorker, on_task: int) -> None:
        """The worker's process ended. ``on_task``: number of the task that was computing; 0 if none was."""

    def on_no_worker_left(self) -> None:
        """No worker accepts tasks any more; see ``WorkerPool.accepts_tasks``."""


class PooledWorker:
    """One place in the pool. Its process is replaced when it ends."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.state = State.STARTING
        self.process: WorkerProcess | None = None
        self.restarts = 0
        self.layout_engine = ""  # openvino or paddle, once it is known
        self.servers: ServersState | None = None

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
        self._start_error = ""
        self._threads: list[threading.Thread] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._past_counts: Counter[str] = Counter()  # of ended processes
        self._last_loss = float("-inf")
        self._was_ready = False
        # Called from a worker's thread when no worker ever started and another try would not help.
        self.when_given_up: Callable[[], None] = lambda: None
        self.workers = [PooledWorker(number) for number in range(settings.workers)]

    def start(self, listener: PoolListener) -> None:
        """Call it in the event loop that the listener is to be called in."""
        self._loop = asyncio.get_running_loop()
        self._threads = [
            threading.Thread(
                target=self._keep_alive, args=(worker, listener), name=f"worker-{worker.number}", daemon=True
            )
            for worker in self.workers
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End all workers; the tasks that they have are lost."""
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
    def layout_engines(self) -> dict[str, int]:
        """How many of the ready workers run the layout model on which engine."""
        ready = [worker.layout_engine for worker in self.workers if worker.state is State.READY]
        return dict(Counter(name for name in ready if name))

    @property
    def layout_away(self) -> str:
        """Why a worker does not use the layout server now; empty if all do."""
        return next(
            (worker.servers.layout_away for worker in self.workers if worker.servers and worker.servers.layout_away), ""
        )

    @property
    def state(self) -> State:
        """That of the worker of which most is to be hoped."""
        states = {worker.state for worker in self.workers}
        return next(s for s in (State.READY, State.RESTARTING, State.STARTING, State.BROKEN) if s in states)

    @property
    def accepts_tasks(self) -> bool:
        """Whether a worker is ready, or was and is being started again."""
        return any(worker.state in (State.READY, State.RESTARTING) for worker in self.workers)

    @property
    def restarts(self) -> int:
        return sum(worker.restarts for worker in self.workers)

    @property
    def not_ready_because(self) -> str:
        return self._start_error or next((w.state.value for w in self.workers if w.state is not State.READY), "")

    def vlm_counts(self) -> Counter[str]:
        """Totals of the VLM calls of all workers since the service's start."""
        with self._lock:
            present = [worker.servers.counts for worker in self.workers if worker.servers is not None]
            return sum((Counter(counts) for counts in present), Counter(self._past_counts))

    @property
    def last_vlm_answer(self) -> float:
        """When the VLM last answered a worker, ``time.monotonic()``."""
        return max((worker.servers.last_answer for worker in self.workers if worker.servers), default=float("-inf"))

    @property
    def last_vlm_loss(self) -> float:
        """When a call of the VLM by a worker last failed, ``time.monotonic()``."""
        return max((self._last_loss, *(worker.servers.last_loss for worker in self.workers if worker.servers)))

    def vlm_lost(self) -> None:
        """A page failed because the VLM is away. The worker's state says so too, a little later."""
        self._last_loss = time.monotonic()

    def _notify(self, method: Any, *args: Any) -> None:
        assert self._loop is not None, "start() sets the loop before it starts the threads"
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(method, *args)

    def _keep_alive(self, worker: PooledWorker, listener: PoolListener) -> None:
        """Body of a worker's thread: starts the process, reads its messages, and starts it again when it ends."""
        failures = 0
        while not self._closing.is_set():
            process = None
            try:
                process = WorkerProcess(self._settings, f"worker-{worker.number}")
                with self._lock:
                    worker.process = process
                    if self._closing.is_set():  # close() has already killed the others
                        process.kill()
                first = process.receive(self._settings.start_timeout_s)
                if isinstance(first, Answer):
                    assert isinstance(first.value, ParserError), "before Ready, a worker answers with an error only"
                    raise first.value
                if isinstance(first, Ready):
                    worker.layout_engine = first.layout_engine
            except (ParserError, TimeoutError, ProcessEnded, OSError, RuntimeError) as exc:  # no process, or no thread
                worker.state = State.BROKEN
                self._start_error = _describe_start(exc, self._settings)
                failures += 1
                if failures >= GIVE_UP_AFTER and not self._was_ready and self.state is State.BROKEN:
                    self.when_given_up()
            else:
                worker.state, self._was_ready = State.READY, True
                self._start_error, failures = "", 0
                self._listen(worker, process, listener)
                worker.state = State.RESTARTING
                worker.restarts += 1
            with self._lock:
                if worker.servers is not None:
                    self._past_counts.update(worker.servers.counts)
                    self._last_loss = max(self._last_loss, worker.servers.last_loss)
                worker.process, worker.servers = None, None
            if process is not None:
                process.end()
            if not self._closing.is_set():
                pause = RESTART_PAUSES_S[min(failures, len(RESTART_PAUSES_S) - 1)]
                log.error("worker-%d: %s; next start in %.0f s", worker.number, self.not_ready_because, pause)
                if not self.accepts_tasks:
                    self._notify(listener.on_no_worker_left)
                self._closing.wait(pause)

    def _listen(self, worker: PooledWorker, process: WorkerProcess, listener: PoolListener) -> None:
        """Pass the process's messages on until it ends."""
        try:
            while True:
                message = process.receive()
                if isinstance(message, ServersState):
                    worker.servers = message
                else:
                    self._notify(listener.on_message, worker, message)
        except ProcessEnded:
            self._notify(listener.on_worker_lost, worker, process.slot.task)
        except Exception:  # a message that cannot be read: the process was killed while it wrote
            log.exception("worker-%d: its pipe is broken", worker.number)
            self._notify(listener.on_worker_lost, worker, process.slot.task)


def _describe_start(exc: Exception, settings: Settings) -> str:
    if isinstance(exc, ParserError):
        return str(exc)
    if isinstance(exc, TimeoutError):
        return f"the models were not loaded within {settings.start_timeout_s:.0f} s (PARSER_START_TIMEOUT_S)"
    if isinstance(exc, ProcessEnded):
        return "a worker process ended while it loaded its models; the log says why"
    return f"a worker process cannot be started ({exc})"
