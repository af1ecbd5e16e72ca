# SPDX-License-Identifier: Apache-2.0
"""A worker's tasks: when it asks for one, and what it tells of each. What is done with a page is simulated."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from docparser.errors import InternalError, InvalidDocument
from docparser.settings import Settings
from docparser.worker import task_runner
from docparser.worker.baton import Baton
from docparser.worker.messages import (
    Answer,
    CancelTask,
    JoinPages,
    PagesGoOn,
    ReadingEnded,
    ReadingIsSlow,
    Ready,
    RequestTask,
    RunTask,
    ServersState,
)
from docparser.worker.process import HolderSlot, SharedSlot
from docparser.worker.task_runner import TaskRunner

NOTHING: Any = JoinPages({}, None)  # type: ignore[arg-type]  # nobody looks at the task
SETTINGS = Settings(workers=2, pages_in_flight=3, max_pixels_in_flight=1_000_000)


class Connection:
    """The worker's pipe: what comes on it, and what was sent."""

    def __init__(self) -> None:
        self.coming: list[object] = []
        self.sent: list[object] = []

    def recv(self) -> object:
        if not self.coming:
            raise EOFError
        return self.coming.pop(0)

    def send(self, message: object) -> None:
        self.sent.append(message)


class Work:
    """Simulates `page_work.PageWork`: a task is a function that is given the callbacks."""

    layout_engine = "paddle"

    def __init__(self, settings: Settings, baton: object, children: object) -> None:
        self.pixels = 0
        self.told: list[tuple[str, int]] = []
        limit = SimpleNamespace(in_flight=1, waiting=0, limit=8)
        presence = SimpleNamespace(last_answer=5.0, last_loss=4.0)
        self.vlm = SimpleNamespace(limit=limit, presence=presence, counts={"calls": 3})
        self.layout_server: Any = None
        self.going_on: list[frozenset[int]] = []
        self.done: Callable[..., object] = lambda run, on_waiting, report: f"answer {run.number}"

    def take_going_on(self) -> frozenset[int]:
        return self.going_on.pop(0) if self.going_on else frozenset()

    def expect(self, number: int) -> None:
        self.told.append(("expect", number))

    def cancel(self, number: int) -> None:
        self.told.append(("cancel", number))

    def do(self, run: RunTask, on_waiting: Callable[[], None], report: Callable[[object], None]) -> object:
        return self.done(run, on_waiting, report)


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Any:
    simulated = ModuleType("docparser.worker.page_work")
    vars(simulated).update(PageWork=Work)
    monkeypatch.setitem(sys.modules, simulated.__name__, simulated)
    connection: Any = Connection()
    return TaskRunner(connection, SETTINGS, HolderSlot(SharedSlot()), SimpleNamespace())  # type: ignore[arg-type]  # no children here


def sent(runner: Any) -> list[Any]:
    return runner._connection.sent


@pytest.mark.parametrize(
    ("change", "asks"),
    [
        (lambda runner: None, True),
        (lambda runner: runner._baton.take(1, 0), False),
        (lambda runner: runner._running.update({1, 2}), True),
        (lambda runner: runner._running.update({1, 2, 3}), False),
        (lambda runner: (runner._running.update({1, 2, 3}), runner._apart.add(2)), True),
        (lambda runner: setattr(runner._work, "pixels", 999_999), True),
        (lambda runner: setattr(runner._work, "pixels", 1_000_000), False),
        (lambda runner: vars(runner._work.vlm.limit).update(waiting=8), True),
        (lambda runner: vars(runner._work.vlm.limit).update(waiting=9), False),
        (lambda runner: vars(runner._work.vlm.limit).update(waiting=40, limit=40), True),
        (lambda runner: vars(runner._work.vlm.limit).update(waiting=41, limit=40), False),
    ],
)
def test_a_task_is_asked_for_while_there_is_room(runner: Any, change: Callable[[Any], object], asks: bool):
    change(runner)
    runner._request_task()
    runner._request_task()
    assert sent(runner) == [RequestTask()] * asks, "once, until one comes"


def test_two_threads_do_not_ask_at_once(runner: Any, monkeypatch: pytest.MonkeyPatch):
    held: list[bool] = []

    def idle(baton: Baton) -> bool:
        held.append(runner._lock.locked())
        return True

    monkeypatch.setattr(Baton, "idle", property(idle))
    runner._request_task()
    assert held == [True] and not runner._lock.locked()


def test_tasks_run_are_answered_and_make_room(runner: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(task_runner, "STATE_EVERY_S", 1e6)
    turn = threading.Event()

    def work(run: RunTask, on_waiting: Callable[[], None], report: Callable[[object], None]) -> object:
        turn.wait(10)
        if run.number == 2:
            raise InvalidDocument("file: no page")
        if run.number == 3:
            raise ValueError("of PaddleX")
        return "text"

    runner._work.done = work
    runner._connection.coming = [
        RunTask(1, NOTHING),
        CancelTask(7),
        RunTask(2, NOTHING, apart=True),
        RunTask(3, NOTHING),
    ]
    runner.run()
    assert (runner._running, runner._apart) == ({1, 2, 3}, {2})
    assert runner._work.told == [("expect", 1), ("cancel", 7), ("expect", 2), ("expect", 3)]
    assert sent(runner) == [Ready("paddle"), RequestTask()]
    turn.set()
    runner._threads.shutdown()
    answers = {message.number: message for message in sent(runner) if isinstance(message, Answer)}
    assert answers[1] == Answer(1, "text", 0.0)
    assert isinstance(answers[2].value, InvalidDocument) and isinstance(answers[3].value, InternalError)
    assert (runner._running, runner._apart) == (set(), set())
    assert sent(runner).count(RequestTask()) == 2, "one more after an answer"


def test_an_answer_says_what_the_task_used(runner: Any):
    def work(run: RunTask, on_waiting: object, report: object) -> object:
        runner._baton.take(run.number, 0)
        runner._baton.give()
        return runner._baton.used_s(run.number)

    runner._work.done = work
    runner._do(RunTask(1, NOTHING))
    (answer, request) = sent(runner)
    assert answer == Answer(1, answer.value, answer.value) and answer.value > 0 and request == RequestTask()
    assert runner._baton.used_s(1) == 0.0, "it is forgotten"


def test_a_document_that_is_slow_leaves_room_until_it_is_read(runner: Any):
    runner._running |= {1, 2, 3}
    runner._report_reading(ReadingIsSlow(2, 2.0))
    runner._request_task()
    runner._requested = False
    runner._report_reading(ReadingEnded(2))
    runner._request_task()
    assert sent(runner) == [ReadingIsSlow(2, 2.0), RequestTask(), ReadingEnded(2)]


def test_the_state_of_what_it_waits_for_is_sent_when_it_changes(runner: Any, monkeypatch: pytest.MonkeyPatch):
    looks, again = [], []
    runner._requested = True
    runner._work.going_on = [frozenset({1, 4}), frozenset(), frozenset({4})]

    class Ended(Exception):
        pass

    def pause(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            runner._work.layout_server = SimpleNamespace(
                look_again=lambda: again.append(1), counts={"cpu": 2}, away="refused"
            )
        if len(looks) == 4:
            raise Ended

    monkeypatch.setattr(task_runner, "time", SimpleNamespace(sleep=pause))
    with pytest.raises(Ended):
        runner._report()
    assert sent(runner) == [
        PagesGoOn(frozenset({1, 4})),
        ServersState(1, 0, 8, 5.0, 4.0, {"calls": 3}),
        PagesGoOn(frozenset({4})),
        ServersState(1, 0, 8, 5.0, 4.0, {"calls": 3, "cpu": 2}, "refused"),
    ]
    assert again == [1], "a server that is away may be back"
