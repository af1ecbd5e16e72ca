# SPDX-License-Identifier: Apache-2.0
"""What the scheduler does when workers are lost, hang, never come, or cannot be told. The workers are simulated."""

from __future__ import annotations

import asyncio
import pickle
import queue

import pytest

from docparser.contract.schemas import ParseOptions
from docparser.documents.spool import Document
from docparser.errors import InternalError, NotReady, PageTimeout, StepTooSlow, WorkerLost
from docparser.parsing import scheduler
from docparser.parsing.fair_queue import Flow
from docparser.parsing.pool import State
from docparser.parsing.scheduler import CANCEL_GRACE_S, DEATHS, LOSSES
from docparser.worker.baton import Baton, Hold
from docparser.worker.messages import CancelTask, CountPages, JoinPages, PagesGoOn, ParsePage, RunTask
from tests.support.simulated_workers import Bench, Process, in_loop


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
        assert bench.scheduler.assigned == 2, "it is tried again"
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
        assert bench.scheduler.assigned == 1, "it is tried again"
        bench.scheduler.on_worker_lost(bench.workers[0], on_task=0)
    with pytest.raises(WorkerLost, match=f"{LOSSES} times"):
        await page


@in_loop
async def test_a_step_that_hangs_costs_its_page_and_its_worker():
    for used, error in ((0.9, StepTooSlow), (0.4, PageTimeout)):
        bench = Bench(step_timeout_s=5)
        page = bench.submit("page", Flow())
        await asyncio.sleep(0)
        bench.want()
        worker = bench.workers[0]
        worker.simulated.hold(worker.told[0].number, 4.0)
        bench.scheduler.check()
        assert not worker.killed
        worker.simulated.hold(worker.told[0].number, 6.0, used)
        bench.scheduler.check()
        assert worker.killed
        with pytest.raises(error, match="PARSER_STEP_TIMEOUT_S"):
            await page


def test_a_page_that_waits_for_the_vlm_is_in_no_step():
    slot, task = Process().slot, RunTask(1, CountPages(Document("a.pdf", "PDF")))
    with Hold(Baton(slot), task, lambda: None, print) as hold:
        with hold.lent():
            assert (slot.task, slot.held_s) == (0, 0)
        assert slot.task == 1
    assert slot.task == 0


@in_loop
async def test_a_page_that_waits_too_long_is_given_up_and_its_worker_goes_on():
    bench = Bench(page_timeout_s=0.01)
    page = bench.submit("page", Flow())
    await asyncio.sleep(0)
    bench.want()
    await asyncio.sleep(0.05)
    bench.scheduler.check()
    with pytest.raises(PageTimeout, match="PARSER_PAGE_TIMEOUT_S"):
        await page
    assert isinstance(bench.workers[0].told[-1], CancelTask) and not bench.workers[0].killed


@in_loop
async def test_joining_pages_and_opening_a_document_take_the_time_that_their_own_bounds_give_them():
    bench, flow = Bench(page_timeout_s=900), Flow()
    opening = bench.submit("a", flow, CountPages)
    joining = asyncio.ensure_future(bench.scheduler.submit(JoinPages({}, ParseOptions()), flow))
    await asyncio.sleep(0)
    for task in (opening, joining):
        bench.want()
        (item,) = bench.scheduler._assigned.values()
        item.went_on_at -= 1320
        bench.scheduler.check()
        assert not task.done() and item.cancelled_at is None
        bench.answer("ended")
        assert await task == "ended"


@in_loop
async def test_a_page_may_take_long_while_the_vlm_answers_for_it():
    bench, flow = Bench(page_timeout_s=900), Flow()
    slow, hung = bench.submit("slow", flow), bench.submit("hung", flow)
    await asyncio.sleep(0)
    bench.want()
    bench.want()
    (number, _) = (run.number for run, _ in bench.runs())
    for _ in range(3):  # ten minutes each, for a page that takes half an hour
        for item in bench.scheduler._assigned.values():
            item.assigned_at -= 600
            item.went_on_at -= 600
        bench.scheduler.on_message(bench.workers[0], PagesGoOn(frozenset({number, 99})))
        bench.scheduler.check()
    with pytest.raises(PageTimeout, match=r"did not go on for 900 s \(PARSER_PAGE_TIMEOUT_S\)"):
        await hung
    assert not slow.done()
    bench.answer("text", name="slow")
    assert await slow == "text"


@in_loop
async def test_a_worker_that_does_not_end_a_cancelled_page_is_replaced_unless_it_computes():
    bench = Bench()
    (worker,) = bench.workers
    page = bench.submit("page", Flow())
    await asyncio.sleep(0)
    bench.want()
    page.cancel()
    await asyncio.sleep(0)
    (item,) = bench.scheduler._assigned.values()
    assert item.cancelled_at is not None
    item.cancelled_at -= CANCEL_GRACE_S / 2
    bench.scheduler.check()
    assert not worker.killed
    item.cancelled_at -= CANCEL_GRACE_S
    worker.simulated.hold(99, 0.0)
    bench.scheduler.check()
    assert not worker.killed, "it looks when its step ends"
    worker.simulated.slot.clear()
    bench.scheduler.check()
    assert worker.killed


@in_loop
async def test_limits_are_looked_at_again_after_a_look_that_failed():
    bench, looked = Bench(), asyncio.Event()
    ended: list[str] = []
    bench.pool.start = lambda listener: None  # type: ignore[method-assign]  # no processes here
    bench.pool.close = lambda: ended.append("pool")  # type: ignore[method-assign]  # the order of the ends
    looks = iter([ValueError("a fault"), None])

    def check() -> None:
        if error := next(looks, None):
            raise error
        looked.set()

    bench.scheduler.check = check  # type: ignore[method-assign]  # of this test
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "CHECK_S", 0.0)
        bench.scheduler.start()
        page = bench.submit("page", Flow())
        await looked.wait()
        await bench.scheduler.close()
    with pytest.raises(NotReady, match="shutting down"):
        await page
    assert ended == ["pool"] and bench.scheduler._checker.cancelling()  # type: ignore[union-attr]  # it was started


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
