# SPDX-License-Identifier: Apache-2.0
"""The limit on concurrent VLM calls adapts to the load that the VLM bears."""

from __future__ import annotations

import asyncio

import pytest

from docparser.vlm import endpoints
from docparser.vlm.endpoints import CallLimit


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

    monkeypatch.setattr(endpoints.time, "monotonic", lambda: Clock.now)
    return Clock


def limit(**given) -> CallLimit:
    return CallLimit(**{"start": 8, "lowest": 4, "highest": 64, "target_s": 5.0, **given})


def test_calls_beyond_the_limit_wait_and_come_in_order():
    async def run():
        few, order = limit(start=2, lowest=1), []

        async def call(number: int):
            await few.acquire()
            order.append(number)
            await asyncio.sleep(0.01)
            few.release()

        calls = [asyncio.create_task(call(number)) for number in range(6)]
        await asyncio.sleep(0)
        assert (few.in_flight, few.waiting) == (2, 4)
        await asyncio.gather(*calls)
        assert order == list(range(6)) and few.in_flight == few.waiting == 0

    asyncio.run(run())


def test_who_leaves_while_waiting_takes_no_place():
    async def run():
        one = limit(start=1, lowest=1)
        await one.acquire()
        leaving, staying = asyncio.create_task(one.acquire()), asyncio.create_task(one.acquire())
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.sleep(0)
        one.release()
        await asyncio.wait_for(staying, 1)
        assert one.in_flight == 1
        # The turn comes, and its owner is cancelled before it runs: the place must not be lost.
        late = asyncio.create_task(one.acquire())
        await asyncio.sleep(0)
        one.release()
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
        assert one.in_flight == 0

    asyncio.run(run())


def test_a_place_that_comes_free_while_a_caller_is_cancelled_goes_to_the_next():
    async def run():
        one = limit(start=1, lowest=1)
        await one.acquire()
        leaving, staying = asyncio.create_task(one.acquire()), asyncio.create_task(one.acquire())
        await asyncio.sleep(0)
        leaving.cancel()
        one.release()
        (left,) = await asyncio.gather(leaving, return_exceptions=True)
        assert isinstance(left, asyncio.CancelledError), "and not an error about the queue"
        await asyncio.wait_for(staying, 1)
        assert one.in_flight == 1 and one.waiting == 0

    asyncio.run(run())


def test_it_grows_while_the_first_token_comes_soon_and_calls_want_more():
    async def run():
        grows = limit()
        for _ in range(8):
            await grows.acquire()
        for _ in range(20):
            grows.answered(0.3)
            await asyncio.wait_for(grows.acquire(), 1)
        assert grows.limit == grows.in_flight == 28
        grows.release()
        for _ in range(100):
            grows.answered(0.3)
        assert grows.limit == 28, "nobody waits and not all places are taken: more would be of no use"

    asyncio.run(run())


def test_it_shrinks_when_calls_queue_in_the_server(clock):
    shrinks = limit(start=40)
    shrinks.answered(6.0)
    assert shrinks.limit == 34
    shrinks.answered(6.0)
    assert shrinks.limit == 34, "calls of the same second tell the same thing"
    clock.now += 2
    shrinks.answered(6.0)
    assert shrinks.limit == 28


def test_it_halves_when_the_server_refuses_and_keeps_a_few(clock):
    refused = limit(start=40)
    for _ in range(10):
        refused.refused()
        clock.now += 2
    assert refused.limit == 4
