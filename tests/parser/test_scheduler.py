# SPDX-License-Identifier: Apache-2.0
"""The scheduler's choice of the next page. The workers here are simulated; `test_workers` has real ones."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import pickle
import queue
from typing import Any

import pytest

from docparser.documents.spool import Document
from docparser.errors import (
    Abandoned,
    DocumentTooSlow,
    InternalError,
    NotReady,
    PageTimeout,
    StepTooSlow,
    WorkerLost,
)
from docparser.parsing.pool import PooledWorker, State, WorkerPool
from docparser.parsing.scheduler import DEATHS, LOSSES, PageScheduler
from docparser.parsing.turns import Flow
from docparser.settings import Settings
from docparser.worker.baton import HolderSlot
from docparser.worker.process import WorkerProcess
from docparser.worker.tasks import (
    Answer,
    CancelTask,
    CountPages,
    ParsePage,
    ReadingEnded,
    ReadingIsSlow,
    RequestTask,
    RunTask,
)


class Process(WorkerProcess):
    """A simulated process: only its slot is there."""

    def __init__(self) -> None:
        self.shared = (ctypes.c_double * 2)()
        self.slot = HolderSlot(self.shared)

    def hold(self, task: int, seconds: float) -> None:
        """Let ``task`` have had the baton for so long."""
        self.slot.set(task)
        self.shared[1] -= seconds


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


@in_loop
async def test_a_short_document_overtakes_a_long_one():
    bench, long, short = Bench(), Flow(), Flow()
    for page in range(5):
        bench.submit(f"long {page}", long)
    await asyncio.sleep(0)
    bench.want()
    bench.want()
    bench.submit("short", short)
    await asyncio.sleep(0)
    bench.want()
    bench.want()
    assert bench.order() == ["long 0", "long 1", "short", "long 2"]


@in_loop
async def test_equal_documents_take_turns():
    bench, flows = Bench(), [Flow(), Flow(), Flow()]
    for page in range(2):
        for name, flow in zip("abc", flows):
            bench.submit(f"{name}{page}", flow)
    await asyncio.sleep(0)
    for _ in range(6):
        bench.want()
    assert bench.order() == ["a0", "b0", "c0", "a1", "b1", "c1"]


@in_loop
async def test_documents_are_opened_before_pages():
    bench = Bench()
    bench.submit("page", Flow())
    bench.submit("document", Flow(), CountPages)
    await asyncio.sleep(0)
    bench.want()
    assert bench.order() == ["document"]


@in_loop
async def test_nothing_is_given_to_a_worker_that_did_not_ask():
    bench = Bench()
    bench.submit("page", Flow())
    await asyncio.sleep(0)
    assert bench.order() == [] and bench.scheduler.queued == 1
    bench.want()
    assert bench.order() == ["page"] and bench.scheduler.queued == 0 and bench.scheduler.assigned == 1


@in_loop
async def test_answers_and_errors_reach_who_waits():
    bench, flow = Bench(), Flow()
    first, second = bench.submit("a", flow), bench.submit("b", flow)
    await asyncio.sleep(0)
    bench.want()
    bench.answer("text of a")
    bench.want()
    bench.answer(InternalError("broken"))
    assert await first == "text of a"
    with pytest.raises(InternalError, match="broken"):
        await second
    assert bench.scheduler.assigned == flow.assigned == 0


@in_loop
async def test_a_page_that_nobody_waits_for_is_not_begun():
    bench, flow = Bench(), Flow()
    waiting = bench.submit("gone", flow)
    bench.submit("there", flow)
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    bench.want()
    assert bench.order() == ["there"]


@in_loop
async def test_a_worker_is_told_that_nobody_waits_any_more():
    bench = Bench()
    waiting = bench.submit("page", Flow())
    await asyncio.sleep(0)
    bench.want()
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    do, forget = bench.workers[0].told
    assert isinstance(forget, CancelTask) and forget.number == do.number


@in_loop
async def test_pages_of_a_lost_worker_go_to_another_first():
    bench, flow = Bench(2), Flow()
    pages = [bench.submit(name, flow) for name in "abc"]
    await asyncio.sleep(0)
    bench.want(0)
    bench.scheduler.on_worker_lost(bench.workers[0], on_task=0)
    bench.want(1)
    assert bench.order(1) == ["a"]
    bench.answer("text", 1)
    assert await pages[0] == "text"
    assert bench.scheduler.page_retries == 1


@in_loop
async def test_a_page_that_kills_workers_is_given_up_and_the_others_are_not():
    bench, flow = Bench(), Flow()
    poison, other = bench.submit("poison", flow), bench.submit("other", flow)
    await asyncio.sleep(0)
    for _ in range(DEATHS):
        bench.want()
        bench.want()
        number = next(m.number for m in bench.workers[0].told[::-1] if m.task.document.path == "poison")
        bench.scheduler.on_worker_lost(bench.workers[0], on_task=number)
    with pytest.raises(WorkerLost, match=f"{DEATHS} times"):
        await poison
    bench.want()
    bench.answer("fine")
    assert await other == "fine"


@in_loop
async def test_a_page_is_not_tried_for_ever_whoever_kills_the_workers():
    bench = Bench()
    page = bench.submit("page", Flow())
    await asyncio.sleep(0)
    for _ in range(LOSSES):
        bench.want()
        bench.scheduler.on_worker_lost(bench.workers[0], on_task=0)
    with pytest.raises(WorkerLost, match=f"{LOSSES} times"):
        await page


@in_loop
async def test_a_step_that_hangs_costs_its_page_and_its_worker():
    bench = Bench(step_timeout_s=5)
    page = bench.submit("page", Flow())
    await asyncio.sleep(0)
    bench.want()
    worker = bench.workers[0]
    worker.simulated.hold(worker.told[0].number, 4.0)
    bench.scheduler._check_timeouts()
    assert not worker.killed
    worker.simulated.hold(worker.told[0].number, 6.0)
    bench.scheduler._check_timeouts()
    assert worker.killed
    with pytest.raises(StepTooSlow, match="PARSER_STEP_TIMEOUT_S"):
        await page


@in_loop
async def test_a_page_that_waits_too_long_is_given_up_and_its_worker_goes_on():
    bench = Bench(page_timeout_s=0.01)
    page = bench.submit("page", Flow())
    await asyncio.sleep(0)
    bench.want()
    await asyncio.sleep(0.05)
    bench.scheduler._check_timeouts()
    with pytest.raises(PageTimeout, match="PARSER_PAGE_TIMEOUT_S"):
        await page
    assert isinstance(bench.workers[0].told[-1], CancelTask) and not bench.workers[0].killed


@pytest.mark.parametrize("state", [State.STARTING, State.BROKEN])
def test_a_pool_without_hope_refuses_at_once(state):
    async def submit():
        bench = Bench()
        bench.workers[0].state = state
        with pytest.raises(NotReady, match="not ready"):
            await bench.submit("page", Flow())

    asyncio.run(asyncio.wait_for(submit(), 5))


@in_loop
async def test_those_who_wait_are_told_when_no_worker_will_come():
    bench = Bench()
    page = bench.submit("page", Flow())
    await asyncio.sleep(0)
    bench.workers[0].state = State.BROKEN
    bench.scheduler.on_no_worker_left()
    with pytest.raises(NotReady):
        await page
    assert bench.scheduler.queued == 0


@in_loop
async def test_clients_take_turns_however_many_requests_they_send():
    bench = Bench()
    bench.send("many", *(f"m{number}" for number in range(20)))
    await asyncio.sleep(0)
    bench.want()
    bench.send("one", "o0", "o1")
    await asyncio.sleep(0)
    for _ in range(4):
        bench.want()
    assert bench.order() == ["m0", "o0", "m1", "o1", "m2"]


@in_loop
async def test_turns_are_of_equal_time_on_the_cpu():
    """Pages of the first client take four times as long, just not long enough to be slow."""
    bench = Bench()
    bench.send("long", *(f"l{number}" for number in range(20)))
    bench.send("short", *(f"s{number}" for number in range(20)))
    await asyncio.sleep(0)
    for _ in range(25):
        bench.want()
        bench.answer("text", used_s=2.0 if bench.order()[-1].startswith("l") else 0.5)
    assert 4 <= sum(name.startswith("l") for name in bench.order()) <= 6


@in_loop
async def test_a_client_gets_no_credit_for_the_time_before_it_came():
    bench = Bench()
    bench.send("old", *(f"o{number}" for number in range(9)))
    await asyncio.sleep(0)
    for _ in range(5):
        bench.want()
        bench.answer("text", used_s=10.0)
    bench.send("new", *(f"n{number}" for number in range(9)))
    await asyncio.sleep(0)
    for _ in range(4):
        bench.want()
        bench.answer("text", used_s=10.0)
    assert sorted(name[0] for name in bench.order()[5:]) == ["n", "n", "o", "o"]


@in_loop
async def test_a_slow_document_goes_on_apart_and_the_next_slow_one_is_put_back():
    bench = Bench()
    first, second, third = bench.send("a", "bomb 1", "bomb 2", "page")
    await asyncio.sleep(0)
    bench.want()
    bench.slow("bomb 1")
    bench.want()
    assert bench.apart() == ["bomb 2"] and bench.scheduler.slow == 1
    old = bench.last("bomb 2").number
    bench.want()
    assert bench.order() == ["bomb 1", "bomb 2"], "one at a time is tried"
    bench.slow("bomb 2")
    assert bench.scheduler.parked == 1 and CancelTask(old) in bench.workers[0].told
    assert bench.order() == ["bomb 1", "bomb 2", "page"], "a good document of the same client is not kept waiting"
    bench.answer(DocumentTooSlow("too slow"), name="bomb 1")
    bench.want()
    assert bench.order()[-1] == "bomb 2" and bench.scheduler.parked == 0 and bench.scheduler.slow == 1
    assert bench.last("bomb 2").apart and bench.last("bomb 2").number != old
    bench.answer(Abandoned("cancelled"), name="page")
    bench.answer(DocumentTooSlow("too slow"), name="bomb 2")
    for bomb in (first, second):
        with pytest.raises(DocumentTooSlow):
            await bomb
    assert third.done()


@in_loop
async def test_what_a_worker_answers_for_a_page_that_was_put_back_is_ignored():
    bench = Bench()
    bench.send("a", "bomb 1", "bomb 2")
    await asyncio.sleep(0)
    bench.want()
    bench.want()
    bench.slow("bomb 1")
    old = bench.last("bomb 2").number
    bench.slow("bomb 2")
    bench.scheduler.on_message(bench.workers[0], Answer(old, Abandoned("cancelled")))
    assert bench.scheduler.parked == 1 and bench.scheduler.assigned == 1


@in_loop
async def test_twenty_slow_documents_of_one_client_leave_the_workers_to_another():
    """Whichever worker asks, and in which order; each of the first client's documents is found slow at once."""
    bench = Bench(2)
    bombs = [f"bomb {number}" for number in range(20)]
    bench.send("a", *bombs)
    await asyncio.sleep(0)
    pages: list[asyncio.Task] = []
    for turn in range(60):
        number = turn % 2
        before = len(bench.order(number))
        bench.want(number)
        for name in bench.order(number)[before:]:
            if name in bombs:
                bench.slow(name, number)
            else:
                bench.answer("text", number, name)
        pages += bench.send("b", f"page {turn}")
        await asyncio.sleep(0)
    for number in (0, 1):  # those two asked for a task, and then nothing was left
        bench.want(number)
    assert bench.scheduler.slow == 1, "of two workers, half"
    assert sum(page.done() for page in pages) >= 38
    begun = bench.order(0) + bench.order(1)
    held = [name for name in begun if name in bombs and name not in bench.apart(0) + bench.apart(1)]
    assert len(held) <= 2, "no more of them had the CPU of a worker"


@in_loop
async def test_slow_documents_of_another_client_have_room():
    bench = Bench()
    bench.send("a", "bomb a")
    bench.send("b", "bomb b")
    bench.send("c", "bomb c")
    await asyncio.sleep(0)
    for name in ("bomb a", "bomb b", "bomb c"):
        bench.want()
        bench.slow(name)
    assert bench.scheduler.slow == 2 and bench.scheduler.parked == 1


@in_loop
async def test_a_slow_page_that_has_been_read_makes_room():
    bench = Bench()
    bench.send("a", "slow 1", "slow 2")
    await asyncio.sleep(0)
    bench.want()
    bench.slow("slow 1")
    bench.want()
    bench.slow("slow 2")
    bench.want()
    assert bench.scheduler.parked == 1
    bench.scheduler.on_message(bench.workers[0], ReadingEnded(bench.last("slow 1").number))
    assert bench.order() == ["slow 1", "slow 2", "slow 2"], "the first one now waits for the VLM"


@in_loop
async def test_a_slow_document_of_a_lost_worker_begins_again_apart():
    bench = Bench(2)
    bench.send("a", "slow")
    await asyncio.sleep(0)
    bench.want(0)
    bench.slow("slow", 0)
    bench.scheduler.on_worker_lost(bench.workers[0], on_task=0)
    assert bench.scheduler.slow == 0 and bench.scheduler.parked == 1
    bench.want(1)
    assert bench.apart(1) == ["slow"]


@in_loop
async def test_a_slow_document_that_nobody_waits_for_is_not_begun_again():
    bench = Bench()
    _, second = bench.send("a", "bomb 1", "bomb 2")
    await asyncio.sleep(0)
    bench.want()
    bench.want()
    bench.slow("bomb 1")
    bench.slow("bomb 2")
    second.cancel()
    await asyncio.sleep(0)
    assert bench.scheduler.parked == bench.scheduler.queued == 0


@in_loop
async def test_the_rest_of_a_document_can_be_given_up():
    bench, flow = Bench(), Flow()
    pages = [bench.submit(name, flow) for name in ("x", "x", "y")]
    await asyncio.sleep(0)
    bench.want()
    bench.scheduler.give_up(Document("x", "PDF"), DocumentTooSlow("enough"))
    with pytest.raises(DocumentTooSlow, match="enough"):
        await pages[1]
    assert not pages[0].done(), "a worker has it"
    bench.want()
    assert bench.order() == ["x", "y"]


@in_loop
async def test_a_task_that_cannot_be_sent_fails_alone_and_its_worker_takes_the_next():
    bench = Bench()
    (worker,) = bench.workers
    send = worker.send

    def refuse_one(message):
        task = message.task if isinstance(message, RunTask) else None
        if isinstance(task, ParsePage | CountPages) and task.document.path == "deep":
            raise RecursionError("maximum recursion depth exceeded while pickling an object")
        send(message)

    worker.send = refuse_one  # type: ignore[method-assign]  # one worker of this test fails
    deep, good = bench.send("a", "deep", "good")
    await asyncio.sleep(0)
    bench.want()
    with pytest.raises(InternalError, match="cannot pass"):
        await deep
    assert bench.order() == ["good"] and bench.scheduler.assigned == 1
    bench.answer("done", name="good")
    assert await good == "done" and bench.scheduler.assigned == 0


def test_what_cannot_be_pickled_is_the_senders_error():
    """It must not end the thread that writes to the worker, which then would be told nothing any more."""
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    process = Process()
    process._outbox = queue.SimpleQueue()
    with pytest.raises(RecursionError):
        process.send(deep)
    assert process._outbox.empty()
    process.send("good")
    sent = process._outbox.get()
    assert sent is not None and pickle.loads(sent) == "good"
