# SPDX-License-Identifier: Apache-2.0
"""Several VLM servers without a balancer in front of them: which one gets a call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from docparser.errors import VlmUnavailable
from docparser.settings import Settings
from docparser.vlm import endpoints
from docparser.vlm.client import VlmClient
from docparser.vlm.endpoints import Endpoints, Reachability
from docparser.vlm.repetition import TEXT
from tests.support.simulated_vlm import MODEL, SimulatedVlm

BODY = {"model": MODEL, "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]}


@pytest.fixture
def servers() -> Iterator[list[SimulatedVlm]]:
    started = [SimulatedVlm(), SimulatedVlm()]
    for server in started:
        server.answer = lambda request, number: "text"
    yield started
    for server in started:
        server.close()


def settings_for(servers: list[SimulatedVlm], patience_s: float = 5.0, **others: Any) -> Settings:
    first, *further = (server.url for server in servers)
    return Settings(vlm_url=first, vlm_further_urls=",".join(further), workers=1, vlm_patience_s=patience_s, **others)


async def read(settings: Settings, count: int, at_once: int) -> list[str]:
    client, room = VlmClient(settings), asyncio.Semaphore(at_once)
    await client.open()

    async def one() -> str:
        async with room:
            return (await client.read_block(BODY, "test", TEXT)).text

    try:
        return await asyncio.gather(*(one() for _ in range(count)))
    finally:
        await client.close()


def test_the_one_with_least_in_work() -> None:
    both = Endpoints(["a", "b"])
    with both.one() as first, both.one() as second, both.one() as third:
        assert {first.url, second.url} == {"a", "b"} and third.url in "ab"
        first.in_work += 5
        with both.one() as fourth:
            assert fourth is not first
    assert all(not endpoint.in_work for endpoint in both.all if endpoint is not first)


def test_who_failed_rests_and_is_tried_by_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(endpoints.time, "monotonic", lambda: now[0])
    both = Endpoints(["a", "b"])
    away, there = both.all
    away.failed()
    with contextlib.ExitStack() as stack:
        assert all(stack.enter_context(both.one()) is there for _ in range(5))
        now[0] += endpoints.FIRST_REST_S
        assert stack.enter_context(both.one()) is away, "it has less in work, and has rested"
        assert stack.enter_context(both.one()) is there, "nobody knows yet whether it is back"
    away.answered()
    with both.one() as chosen:
        assert chosen is away


def test_one_server_is_asked_however_often_it_failed() -> None:
    only = Endpoints(["a"])
    for _ in range(40):
        only.all[0].failed()
    with only.one() as chosen:
        assert chosen.url == "a"


def test_rests_double_up_to_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints.time, "monotonic", lambda: 100.0)
    (only,) = Endpoints(["a"]).all
    rests = []
    for _ in range(50):
        only.failed()
        rests.append(only.rests_until - 100.0)
    assert rests[:7] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] and set(rests[7:]) == {30.0}


def test_away_is_what_nobody_answered_for_as_long_as_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(endpoints.time, "monotonic", lambda: now[0])
    known = Reachability("http://vlm", 20.0, lambda: pytest.fail("nobody asks"))
    for moment in (100.0, 110.0, 119.9):
        now[0] = moment
        known.away("refused")
    known.answered()
    now[0] = 121.0
    known.away("refused")  # a new absence
    now[0] = 121.0 + 20.0 + endpoints.FORGET_S + 1.0
    known.away("refused")  # long after it: another one
    now[0] += 20.0
    with pytest.raises(VlmUnavailable, match=r"http://vlm cannot be reached \(refused\)"):
        known.away("refused")


def test_of_calls_that_failed_at_once_one_asks_whether_the_server_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked, reads = [100.0], [], [False]
    monkeypatch.setattr(endpoints.time, "monotonic", lambda: now[0])

    async def ask() -> bool:
        asked.append(now[0])
        await asyncio.sleep(0)
        now[0] += 5.0
        return reads[0]

    async def scenario() -> None:
        known = Reachability("http://vlm", 20.0, ask)
        assert await asyncio.gather(*(known.answers_since(99.0) for _ in range(5))) == [False] * 5
        assert asked == [100.0]
        reads[0] = True
        assert await asyncio.gather(*(known.answers_since(102.0) for _ in range(5))) == [True] * 5
        assert asked == [100.0, 105.0] and known.last_answer == 110.0
        assert await known.answers_since(109.0) and asked == [100.0, 105.0], "an answer is proof"

    asyncio.run(scenario())


@pytest.mark.server
def test_a_slower_server_gets_fewer_calls(servers: list[SimulatedVlm]) -> None:
    servers[0].delay_s, servers[1].delay_s = 0.2, 0.02
    assert asyncio.run(read(settings_for(servers), 60, at_once=6)) == ["text"] * 60
    slow, fast = (len(server.requests) for server in servers)
    assert slow + fast == 60 and 0 < slow < fast / 2


@pytest.mark.server
def test_nothing_is_lost_with_a_server_that_is_away(servers: list[SimulatedVlm]) -> None:
    away = servers.pop(0)
    settings = settings_for([away, *servers], patience_s=0.0)
    away.close()
    assert asyncio.run(read(settings, 40, at_once=8)) == ["text"] * 40


@pytest.mark.server
def test_nothing_is_lost_with_a_server_that_hangs(servers: list[SimulatedVlm]) -> None:
    with servers[0].holding():
        assert asyncio.run(read(settings_for(servers, vlm_timeout_s=0.5), 20, at_once=8)) == ["text"] * 20


def test_addresses_are_checked() -> None:
    with pytest.raises(ValidationError, match="'b:8000' cannot be used; expected API roots"):
        Settings(vlm_url="http://a/v1", vlm_further_urls="http://c/v1, b:8000")
    settings = Settings(vlm_url="http://a/v1/", vlm_further_urls="http://b/v1, http://a/v1,")
    assert settings.vlm_urls == ("http://a/v1", "http://b/v1")
