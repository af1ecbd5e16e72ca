# SPDX-License-Identifier: Apache-2.0
"""Slow documents go on apart from the others, and wait for each other (decision 0213). The workers are simulated."""

from __future__ import annotations

import asyncio

import pytest

from docparser.documents.spool import Document
from docparser.errors import Abandoned, DocumentTooSlow
from docparser.parsing.fair_queue import Flow
from docparser.worker.messages import Answer, CancelTask, ReadingEnded
from tests.support.simulated_workers import Bench, in_loop


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
