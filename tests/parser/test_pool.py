# SPDX-License-Identifier: Apache-2.0
"""What the pool says of its workers, and what it does when one ends. The processes are simulated."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from docparser.errors import NotReady
from docparser.parsing import pool
from docparser.parsing.metrics import Metrics
from docparser.parsing.pool import State, WorkerPool
from docparser.parsing.scheduler import PageScheduler
from docparser.settings import Settings
from docparser.worker import process
from docparser.worker.messages import Answer, Ready, RequestTask, ServersState
from docparser.worker.process import ProcessEnded

CALLS = ServersState(3, 5, 7, last_answer=40.0, last_loss=30.0, counts={"calls": 11, "retries": 2})
OTHER = ServersState(1, 2, 4, last_answer=10.0, last_loss=50.0, counts={"calls": 1, "blocks_ok": 6}, layout_away="gone")


def with_states(*states: State) -> WorkerPool:
    made = WorkerPool(Settings(workers=len(states)))
    for worker, state in zip(made.workers, states, strict=True):
        worker.state = state
    return made


@pytest.mark.parametrize(
    ("states", "state", "ready", "accepts"),
    [
        ((State.STARTING, State.READY, State.BROKEN), State.READY, 1, True),
        ((State.RESTARTING, State.STARTING), State.RESTARTING, 0, True),
        ((State.BROKEN, State.STARTING), State.STARTING, 0, False),
        ((State.BROKEN,), State.BROKEN, 0, False),
        ((State.READY, State.READY), State.READY, 2, True),
    ],
)
def test_the_best_worker_says_what_is_to_be_hoped(states: Any, state: State, ready: int, accepts: bool):
    made = with_states(*states)
    assert (made.state, made.ready, made.accepts_tasks) == (state, ready, accepts)
    others = [one.value for one in states if one is not State.READY]
    assert made.not_ready_because == (others[0] if others else "")


def test_what_workers_wait_for_is_added_up_and_outlives_them():
    made = with_states(State.READY, State.READY, State.STARTING)
    assert (made.last_vlm_answer, made.last_vlm_loss, made.layout_away) == (float("-inf"), float("-inf"), "")
    made.workers[0].servers, made.workers[1].servers = CALLS, OTHER
    for number, (worker, engine) in enumerate(zip(made.workers, ("openvino", "paddle", "paddle"), strict=True)):
        worker.layout_engine, worker.restarts = engine, number
    assert made.vlm_counts() == {"calls": 12, "retries": 2, "blocks_ok": 6}
    assert (made.last_vlm_answer, made.last_vlm_loss, made.layout_away) == (40.0, 50.0, "gone")
    assert made.layout_engines == {"openvino": 1, "paddle": 1} and made.restarts == 3

    class Counted:
        @property
        def counts(self) -> dict[str, int]:
            assert made._lock.locked(), "a worker that ends meanwhile would count twice, or not at all"
            return {"calls": 1}

    made.workers[0].servers = Counted()  # type: ignore[assignment]  # its counts alone
    assert made.vlm_counts()["calls"] == 2


def test_metrics_say_what_pool_and_scheduler_say(monkeypatch: pytest.MonkeyPatch):
    made = with_states(State.READY, State.READY, State.STARTING)
    made.workers[0].servers, made.workers[1].servers = CALLS, OTHER
    counts = {"repetition_retries": 8, "layout_served": 21, "layout_on_cpu": 22, "blocks_timeout": 23}
    made._past_counts.update(counts)
    made.workers[1].restarts, made.workers[1].layout_engine = 9, "openvino"
    for place, name in enumerate(("queued", "oldest_s", "slow", "parked", "assigned"), 31):
        monkeypatch.setattr(PageScheduler, name, place)
    scheduler = PageScheduler(Settings(workers=3), made)
    scheduler.page_retries = 41
    metrics = Metrics(made, scheduler)
    metrics.request("/nowhere", 0, 0.5)
    metrics.waited(7.0, bulk=True)
    metrics.page("partial", {"vlm": 2.0})
    said = dict(line.rsplit(" ", 1) for line in metrics.exposition().decode().splitlines() if line[0] != "#")
    expected = {
        "docparser_queue_tasks": 31, "docparser_queue_oldest_seconds": 32, "docparser_slow_documents": 33,
        "docparser_slow_documents_waiting": 34, "docparser_running_tasks": 35,
        "docparser_workers": 3, "docparser_workers_ready": 2,
        "docparser_vlm_calls_in_flight": 4, "docparser_vlm_calls_waiting": 7, "docparser_vlm_calls_limit": 11,
        "docparser_worker_restarts_total": 9, "docparser_page_retries_total": 41,
        "docparser_vlm_calls_total": 12, "docparser_vlm_retries_total": 2, "docparser_repetition_retries_total": 8,
        'docparser_layout_workers{engine="openvino"}': 1, 'docparser_layout_workers{engine="paddle"}': 0,
        'docparser_layout_pages_total{place="server"}': 21, 'docparser_layout_pages_total{place="cpu"}': 22,
        "docparser_layout_server_away": 1,
        'docparser_blocks_total{outcome="ok"}': 6, 'docparser_blocks_total{outcome="timeout"}': 23,
        'docparser_pages_total{outcome="partial"}': 1, 'docparser_pages_total{outcome="ok"}': 0,
        'docparser_requests_total{code="499",path="/nowhere"}': 1,
        'docparser_page_wait_seconds_sum{priority="bulk"}': 7,
        'docparser_page_wait_seconds_count{priority="interactive"}': 0,
        'docparser_page_stage_duration_seconds_sum{stage="vlm"}': 2,
    }  # fmt: skip
    assert {name: float(said[name]) for name in expected} == expected


class Process:
    """A worker's process: `script` has what each start receives, in order; an exception is raised."""

    script: list[list[Any]] = []
    made: WorkerPool | None = None
    ended = 0
    killed: list[bool] = []  # whether nobody could replace it meanwhile

    def __init__(self, settings: Settings, name: str) -> None:
        self._messages = self.script.pop(0)
        if isinstance(self._messages[0], BlockingIOError | RuntimeError):
            Process.ended += 1  # there is nothing to end
            raise self._messages[0]
        self.slot = SimpleNamespace(task=7)
        assert name == "worker-0"

    def receive(self, timeout_s: float | None = None) -> Any:
        message = self._messages.pop(0)
        if isinstance(message, BaseException):
            raise message
        return message

    def kill(self) -> None:
        assert self.made is not None
        Process.killed.append(self.made._lock.locked())

    def end(self) -> None:
        Process.ended += 1


class Counts(Counter[str]):
    """Those of workers that ended; others add them up meanwhile."""

    lock: Any = None

    def update(self, *counts: Any) -> None:  # type: ignore[override]  # one of its forms
        assert self.lock is None or self.lock.locked()
        super().update(*counts)


async def lives(monkeypatch: pytest.MonkeyPatch, *script: list[Any]) -> tuple[WorkerPool, list[Any], list[float]]:
    """A pool of one worker after the starts of `script`; what its listener was told, and the pauses before starts."""
    told: list[Any] = []
    pauses: list[float] = []
    made = WorkerPool(Settings(workers=1, start_timeout_s=60))
    monkeypatch.setattr(pool, "WorkerProcess", Process)
    monkeypatch.setattr(Process, "script", [list(messages) for messages in script])
    monkeypatch.setattr(Process, "made", made)
    monkeypatch.setattr(Process, "ended", 0)
    made._past_counts = counts = Counts()
    counts.lock = made._lock
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        told.append((made.state, made.not_ready_because))
        if not Process.script:
            with made._lock:
                assert made.workers[0].process is None and made.workers[0].servers is None
            made._closing.set()
            loop.call_soon_threadsafe(done.set)

    made._closing.wait = pause  # type: ignore[method-assign, assignment]  # no test waits
    made.start(
        SimpleNamespace(
            on_message=lambda worker, message: told.append(message),
            on_worker_lost=lambda worker, task: told.append(f"lost with {task}"),
            on_no_worker_left=lambda: told.append("none left"),
        )
    )
    await asyncio.wait_for(done.wait(), 60)
    made.close()
    await asyncio.sleep(0)
    assert Process.ended == len(script), "each is ended"
    return made, told, pauses


@pytest.mark.parametrize("ends", [ProcessEnded(), EOFError("of a message that was cut")])
def test_a_worker_that_ends_is_started_again_at_once(monkeypatch: pytest.MonkeyPatch, ends: Exception):
    life = [Ready("paddle"), RequestTask(), CALLS, ends]
    made, told, pauses = asyncio.run(lives(monkeypatch, life, [Ready("openvino"), OTHER, ProcessEnded()]))
    events = [event for event in told if not isinstance(event, tuple)]
    assert events == [RequestTask(), "lost with 7", "lost with 7"]
    assert pauses == [0.0, 0.0] and made.restarts == 2 and made.state is State.RESTARTING
    assert made.vlm_counts() == {"calls": 12, "retries": 2, "blocks_ok": 6} and made.last_vlm_loss == 50.0
    assert made.workers[0].layout_engine == "openvino"


def test_one_that_cannot_start_says_why_and_is_tried_after_pauses_that_grow(monkeypatch: pytest.MonkeyPatch):
    failures: list[list[Any]] = [
        [Answer(0, NotReady("no model"))],
        [TimeoutError()],
        [ProcessEnded()],
        [BlockingIOError(errno.EAGAIN, "no process is left")],
        [RuntimeError("can't start new thread")],
        [OSError("got end of file during message")],
    ]
    _, told, pauses = asyncio.run(lives(monkeypatch, *failures, [Ready("paddle"), ProcessEnded()], [ProcessEnded()]))
    longest = pool.RESTART_PAUSES_S[-1]
    assert pauses == [*pool.RESTART_PAUSES_S[1:], longest, longest, 0.0, pool.RESTART_PAUSES_S[1]]
    said = [event for event in told if isinstance(event, tuple)]
    assert said[0] == (State.BROKEN, "no model")
    assert said[1][1] == "the models were not loaded within 60 s (PARSER_START_TIMEOUT_S)"
    assert "ended while it loaded its models" in said[2][1]
    assert [words.partition("cannot be started ")[2] for _, words in said[3:6]] == [
        f"([Errno {errno.EAGAIN}] no process is left)",
        "(can't start new thread)",
        "(got end of file during message)",
    ]
    assert said[6] == (State.RESTARTING, State.RESTARTING.value)
    assert told.count("none left") == 7, "after a start that failed, and not while one is hoped for"


def test_a_worker_whose_thread_cannot_be_started_leaves_no_process(monkeypatch: pytest.MonkeyPatch):
    done: list[str] = []

    def no_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    simulated = SimpleNamespace(kill=lambda: done.append("kill"), wait=lambda: done.append("wait"))
    monkeypatch.setattr(process.subprocess, "Popen", lambda *_, **__: simulated)
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(RuntimeError):
        process.WorkerProcess(Settings(), "worker-0")
    assert done == ["kill", "wait"]


def test_closing_ends_the_workers_that_are_there_and_one_that_is_just_started(monkeypatch: pytest.MonkeyPatch):
    made = WorkerPool(Settings(workers=1))

    class Late(Process):
        def __init__(self, settings: Settings, name: str) -> None:
            super().__init__(settings, name)
            made._closing.set()  # while it was being started

    monkeypatch.setattr(pool, "WorkerProcess", Late)
    monkeypatch.setattr(Process, "script", [[ProcessEnded()], [ProcessEnded()]])
    monkeypatch.setattr(Process, "made", made)
    monkeypatch.setattr(Process, "killed", [])
    made._keep_alive(made.workers[0], SimpleNamespace())
    assert Process.killed == [True]
    made._closing.clear()
    made.workers[0].process = Process(Settings(), "worker-0")  # type: ignore[assignment]  # simulated
    made.close()
    assert Process.killed == [True, True] and made._closing.is_set()
