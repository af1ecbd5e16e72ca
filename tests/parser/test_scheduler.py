# SPDX-License-Identifier: Apache-2.0
"""Who gets the next free worker. The workers here are names only; the real ones are in ``test_workers``."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from docparser.errors import DocumentTooLarge, InternalError, NotReady, PageTimeout, WorkerLost
from docparser.pool import State, Worker, WorkerPool
from docparser.scheduler import DEATHS, LOSSES, Flow, PageScheduler
from docparser.settings import Settings
from docparser.tasks import Answer, CountPages, Do, Forget, ParsePage, Want


class Slot:
    task, held_s = 0, 0.0


class Process:
    def __init__(self):
        self.slot = Slot()


class NamedWorker(Worker):
    """Keeps what it is told."""

    def __init__(self, number: int):
        super().__init__(number)
        self.state = State.READY
        self.process = Process()
        self.told, self.killed = [], False

    def send(self, message):
        self.told.append(message)

    def kill(self):
        self.killed = True

    @property
    def tasks(self):
        return [message.task for message in self.told if isinstance(message, Do)]


class Bench:
    """A scheduler with ``count`` named workers, for use inside a running loop."""

    def __init__(self, count: int = 1, **settings):
        settings = Settings(workers=count, **settings)
        self.pool = WorkerPool(settings)
        self.pool.workers = [NamedWorker(number) for number in range(count)]
        self.scheduler = PageScheduler(settings, self.pool)

    def submit(self, name: str, flow: Flow, kind=ParsePage) -> asyncio.Task:
        task = kind(name) if kind is CountPages else kind(name, 0, None)
        return asyncio.ensure_future(self.scheduler.submit(task, flow))

    def want(self, number: int = 0) -> None:
        self.scheduler.heard(self.pool.workers[number], Want())

    def answer(self, value, number: int = 0) -> None:
        worker = self.pool.workers[number]
        last = [message for message in worker.told if isinstance(message, Do)][-1]
        self.scheduler.heard(worker, Answer(last.number, value))

    def order(self, number: int = 0) -> list[str]:
        return [task.document for task in self.pool.workers[number].tasks]


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
    assert bench.order() == ["page"] and bench.scheduler.queued == 0 and bench.scheduler.given == 1


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
    assert bench.scheduler.given == flow.given == 0


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
    do, forget = bench.pool.workers[0].told
    assert isinstance(forget, Forget) and forget.number == do.number


@in_loop
async def test_pages_of_a_lost_worker_go_to_another_first():
    bench, flow = Bench(2), Flow()
    pages = [bench.submit(name, flow) for name in "abc"]
    await asyncio.sleep(0)
    bench.want(0)
    bench.scheduler.lost(bench.pool.workers[0], on_task=0)
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
        number = next(m.number for m in bench.pool.workers[0].told[::-1] if m.task.document == "poison")
        bench.scheduler.lost(bench.pool.workers[0], on_task=number)
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
        bench.scheduler.lost(bench.pool.workers[0], on_task=0)
    with pytest.raises(WorkerLost, match=f"{LOSSES} times"):
        await page


@in_loop
async def test_a_step_that_hangs_costs_its_page_and_its_worker():
    bench = Bench(step_timeout_s=5)
    page = bench.submit("page", Flow())
    await asyncio.sleep(0)
    bench.want()
    worker = bench.pool.workers[0]
    worker.process.slot.task, worker.process.slot.held_s = worker.told[0].number, 4.0
    bench.scheduler._look()
    assert not worker.killed
    worker.process.slot.held_s = 6.0
    bench.scheduler._look()
    assert worker.killed
    with pytest.raises(DocumentTooLarge, match="PARSER_STEP_TIMEOUT_S"):
        await page


@in_loop
async def test_a_page_that_waits_too_long_is_given_up_and_its_worker_goes_on():
    bench = Bench(page_timeout_s=0.01)
    page = bench.submit("page", Flow())
    await asyncio.sleep(0)
    bench.want()
    await asyncio.sleep(0.05)
    bench.scheduler._look()
    with pytest.raises(PageTimeout, match="PARSER_PAGE_TIMEOUT_S"):
        await page
    assert isinstance(bench.pool.workers[0].told[-1], Forget) and not bench.pool.workers[0].killed


@pytest.mark.parametrize("state", [State.STARTING, State.BROKEN])
def test_a_pool_without_hope_refuses_at_once(state):
    async def submit():
        bench = Bench()
        bench.pool.workers[0].state = state
        with pytest.raises(NotReady, match="not ready"):
            await bench.submit("page", Flow())

    asyncio.run(asyncio.wait_for(submit(), 5))


@in_loop
async def test_those_who_wait_are_told_when_no_worker_will_come():
    bench = Bench()
    page = bench.submit("page", Flow())
    await asyncio.sleep(0)
    bench.pool.workers[0].state = State.BROKEN
    bench.scheduler.hopeless()
    with pytest.raises(NotReady):
        await page
    assert bench.scheduler.queued == 0
