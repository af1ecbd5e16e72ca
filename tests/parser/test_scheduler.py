# SPDX-License-Identifier: Apache-2.0
"""The scheduler's choice of the next page. The workers here are simulated; `test_workers` has real ones."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from docparser.contract.request_parts import with_priority
from docparser.documents.spool import Document
from docparser.errors import InternalError, VlmUnavailable
from docparser.parsing.fair_queue import Flow
from docparser.worker.messages import CancelTask, CountPages, ParsedPage, ParsePage, PartOfPage
from tests.support.simulated_workers import Bench, in_loop

PAGE = Document("page", "PDF")


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
async def test_of_workers_that_ask_the_one_with_fewest_pages_is_given_the_next():
    bench, flow = Bench(2), Flow()
    bench.want(0)
    bench.submit("a", flow)
    await asyncio.sleep(0)
    bench.want(0)
    bench.want(1)
    bench.submit("b", flow)
    await asyncio.sleep(0)
    assert (bench.order(0), bench.order(1)) == (["a"], ["b"])


@in_loop
async def test_a_page_says_how_long_it_waited_and_an_error_that_the_vlm_is_away():
    bench, flow = Bench(), Flow()
    first, second = bench.submit("a", flow), bench.submit("b", flow)
    await asyncio.sleep(0)
    for item in bench.scheduler._queue.waiting():
        item.queued_at -= 500.0
    assert 500 <= bench.scheduler.oldest_s < 900
    bench.want()
    bench.answer(ParsedPage(b"", 1, 1, 0, [], {}))
    assert 500 <= (await first).seconds["queue"] < 900
    assert bench.pool.last_vlm_loss == float("-inf")
    bench.want()
    bench.answer(VlmUnavailable("away"))
    with pytest.raises(VlmUnavailable):
        await second
    assert bench.pool.last_vlm_loss > float("-inf") and bench.scheduler.oldest_s == 0.0


@in_loop
async def test_parts_of_a_page_reach_who_waits_and_nobody_later():
    bench, parts = Bench(), []  # type: ignore[var-annotated]  # of messages
    waits = asyncio.ensure_future(bench.scheduler.submit(ParsePage(PAGE, 0, None), Flow(), parts.append))  # type: ignore[arg-type]  # nobody reads options
    await asyncio.sleep(0)
    bench.want()
    number = bench.last("page").number
    part = PartOfPage(number, 3, "text")
    for message in (part, PartOfPage(number + 1, 0, "of another")):
        bench.scheduler.on_message(bench.workers[0], message)
    assert parts == [part]
    waits.cancel()
    await asyncio.sleep(0)
    bench.scheduler.on_message(bench.workers[0], part)
    assert parts == [part]


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
async def test_interactive_pages_come_before_bulk_ones_which_have_a_share():
    bench = Bench(bulk_share=0.25)
    archive, office = Flow(with_priority("archive", bulk=True)), Flow("office")
    for page in range(4):
        bench.submit(f"bulk {page}", archive)
    for page in range(8):
        bench.submit(f"page {page}", office)
    await asyncio.sleep(0)
    for _ in range(12):
        bench.want()
    first = [f"page {number}" for number in range(4)] + ["bulk 0"]
    second = [f"page {number}" for number in range(4, 7)] + ["bulk 1"]
    assert bench.order() == [*first, *second, "page 7", "bulk 2", "bulk 3"]


@in_loop
async def test_bulk_pages_never_have_the_last_place():
    bench = Bench(pages_in_flight=3)
    for page in range(5):
        bench.submit(f"bulk {page}", Flow(with_priority("archive", bulk=True)))
    await asyncio.sleep(0)
    for _ in range(3):
        bench.want()
    assert bench.order() == ["bulk 0", "bulk 1"]
    bench.submit("page", Flow("office"))
    await asyncio.sleep(0)
    assert bench.order()[-1] == "page", "it has not waited for another page's end"
    bench.answer("text", name="bulk 0")
    bench.want()
    assert bench.order()[-1] == "bulk 2"


@in_loop
async def test_the_only_place_is_for_both_kinds():
    bench = Bench(pages_in_flight=1)
    bench.submit("bulk", Flow(with_priority("archive", bulk=True)))
    await asyncio.sleep(0)
    bench.want()
    assert bench.order() == ["bulk"]
