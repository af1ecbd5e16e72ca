# SPDX-License-Identifier: Apache-2.0
"""The client of the VLM: a server that is away, however that is said, and one that fails on a block."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from docparser.errors import VlmUnavailable
from docparser.models import readiness as readiness_module
from docparser.models.readiness import Readiness
from docparser.models.served_model import ServedModel
from docparser.models.vlm_probe import VlmProbe
from docparser.parsing.pool import WorkerPool
from docparser.settings import Settings
from docparser.vlm import client as client_module
from docparser.vlm.client import Reply, VlmClient
from docparser.vlm.failures import LOST_TRIES, TRIES
from docparser.vlm.repetition import TEXT
from tests.support.simulated_balancer import SimulatedBalancer
from tests.support.simulated_vlm import SimulatedVlm, prompt_of

KINDS = ["502 html", "503 html", "503 json", "504 json", "reset", "half", "close"]


@pytest.fixture
def vlm() -> Iterator[SimulatedVlm]:
    server = SimulatedVlm()
    server.answer = lambda request, number: prompt_of(request)
    yield server
    server.close()


@pytest.fixture
def balancer(vlm) -> Iterator[SimulatedBalancer]:
    front = SimulatedBalancer(vlm.port)
    yield front
    front.mode = "pass"
    front.close()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(client_module, "FIRST_PAUSE_S", 0.02)


def settings(port: int, **values) -> Settings:
    values = {"workers": 1, "vlm_patience_s": 0.3, "vlm_timeout_s": 5.0, **values}
    return Settings(vlm_url=f"http://127.0.0.1:{port}/v1", **values)


def with_client(own: Settings, use: Callable[[VlmClient], Awaitable[None]]) -> None:
    async def scenario() -> None:
        client = VlmClient(own)
        await client.open()
        try:
            await use(client)
        finally:
            await client.close()

    asyncio.run(scenario())


def slow_answer(request: dict, number: int) -> str:
    if prompt_of(request) == "slow":
        time.sleep(1.5)
    return prompt_of(request)


async def read(client: VlmClient, prompt: str) -> Reply:
    messages = [{"role": "user", "content": [{"type": "text", "text": prompt}]}]
    return await client.read_block({"model": "PaddleOCR-VL-0.9B", "messages": messages}, "r", TEXT)


@pytest.mark.parametrize("kind", KINDS)
def test_away_is_never_the_blocks_fault(balancer, kind):
    balancer.close() if kind == "close" else setattr(balancer, "mode", kind)

    async def use(client: VlmClient) -> None:
        with pytest.raises(VlmUnavailable, match="cannot be reached") as caught:
            await read(client, "a")
        assert "<" not in str(caught.value), "no markup reaches a client"

    with_client(settings(balancer.port), use)


@pytest.mark.parametrize("kind", KINDS)
def test_an_absence_within_the_patience_is_not_noticed(balancer, kind):
    async def use(client: VlmClient) -> None:
        assert (await read(client, "a")).text == "a"
        balancer.close() if kind == "close" else setattr(balancer, "mode", kind)
        calls = [asyncio.create_task(read(client, name)) for name in "abcdef"]
        await asyncio.sleep(0.3)
        balancer.open() if kind == "close" else setattr(balancer, "mode", "pass")
        assert [(reply.text, reply.note) for reply in await asyncio.gather(*calls)] == [
            (name, None) for name in "abcdef"
        ]

    with_client(settings(balancer.port, vlm_patience_s=60.0), use)


def test_a_name_that_does_not_resolve_is_away():
    own = settings(1).model_copy(update={"vlm_url": "http://vlm.invalid:8000/v1"})

    async def use(client: VlmClient) -> None:
        with pytest.raises(VlmUnavailable, match="cannot be reached"):
            await read(client, "a")

    with_client(own, use)


def test_a_server_that_hangs_is_away_unless_it_answers_others(balancer, vlm):
    async def use(client: VlmClient) -> None:
        balancer.mode = "hang"
        with pytest.raises(VlmUnavailable, match="in time"):
            await read(client, "a")
        balancer.mode = "pass"
        vlm.answer = slow_answer
        slow, quick = await asyncio.gather(read(client, "slow"), read(client, "b"))
        assert slow.note is not None and slow.note.kind == "timeout" and quick.note is None

    own = settings(balancer.port, vlm_timeout_s=0.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client_module, "TINY_S", 0.5)
        with_client(own, use)


def test_a_block_that_the_server_fails_on_is_tried_a_few_times(vlm):
    def answer(request: dict, number: int) -> str | tuple[int, str]:
        return (500, "broken on this") if prompt_of(request) == "bad" else "good"

    vlm.answer = answer

    async def use(client: VlmClient) -> None:
        bad, good = await asyncio.gather(read(client, "bad"), read(client, "good"))
        assert bad.note is not None and (bad.note.kind, bad.note.message) == ("failed", "500: broken on this")
        assert good.note is None
        assert sum(prompt_of(request) == "bad" for request in vlm.requests) == TRIES

    with_client(settings(vlm.port), use)


def test_a_server_that_fails_on_everything_is_away(vlm):
    """An engine that died: the API server answers 500 until it ends. Its readiness request fails too."""
    vlm.completion = lambda text, number: {}

    async def use(client: VlmClient) -> None:
        with pytest.raises(VlmUnavailable):
            await read(client, "a")

    vlm.answer = lambda request, number: (500, "EngineDeadError")
    with_client(settings(vlm.port), use)


def test_a_block_that_ends_connections_is_given_up_while_others_are_answered(balancer, vlm):
    """The balancer resets the connection whenever it gets the bad block."""
    serve = balancer.server.RequestHandlerClass.serve

    def reset_bad(handler, body: bytes) -> None:
        if b'"bad"' in body:
            balancer.seen = getattr(balancer, "seen", 0) + 1
            mode, balancer.mode = balancer.mode, "reset"
            try:
                serve(handler, body)
            finally:
                balancer.mode = mode
        else:
            serve(handler, body)

    balancer.server.RequestHandlerClass.serve = reset_bad

    async def use(client: VlmClient) -> None:
        bad = await read(client, "bad")
        assert bad.note is not None and bad.note.kind == "failed" and "hung up" in bad.note.message
        assert balancer.seen == LOST_TRIES
        assert (await read(client, "good")).note is None

    with_client(settings(balancer.port, vlm_patience_s=60.0), use)


def test_a_balancer_that_has_no_room_for_one_block_is_waited_for_a_bounded_time(vlm):
    vlm.answer = lambda request, number: (503, "queue full") if prompt_of(request) == "unlucky" else "good"

    async def use(client: VlmClient) -> None:
        unlucky = asyncio.create_task(read(client, "unlucky"))
        while not unlucky.done():
            assert (await read(client, "other")).note is None
            await asyncio.sleep(0.05)
        note = unlucky.result().note
        assert note is not None and (note.kind, note.message) == ("failed", "503: queue full")

    with_client(settings(vlm.port, vlm_timeout_s=1.0), use)


@pytest.mark.parametrize("lost", [True, False])
def test_a_lost_call_voids_the_proof_that_the_vlm_reads(vlm, lost):
    """Healthy and listing its model, but reading nothing: only a tiny image shows it."""
    answered = time.monotonic()
    asked = []

    def no_completion(text: str, number: int) -> dict:
        asked.append(number)
        return {"not": "a completion"}

    vlm.completion = no_completion
    states = {"loss": float("-inf")}

    async def scenario() -> None:
        probe = VlmProbe(settings(vlm.port), lambda: answered, lambda: states["loss"])
        await probe.check()
        assert asked == [], "a block read a moment ago is proof enough"
        if lost:
            states["loss"] = time.monotonic()
            with pytest.raises(VlmUnavailable, match="tiny image"):
                await probe.check()
        else:
            await probe.check()
        await probe.close()

    asyncio.run(scenario())
    assert bool(asked) is lost


def test_a_tiny_image_proves_for_half_a_minute_that_the_vlm_reads(vlm, monkeypatch):
    """Checks within two seconds are one."""
    tiny, asked, clock, ask = [], [], [1000.0], VlmProbe._ask

    def counted(self: VlmProbe) -> Awaitable[Any]:
        asked.append(1)
        return ask(self)

    monkeypatch.setattr(VlmProbe, "_ask", counted)
    monkeypatch.setattr("docparser.models.vlm_probe.time", SimpleNamespace(monotonic=lambda: clock[0]))
    complete = vlm.completion

    def counted_tiny(text: str, number: int) -> dict:
        tiny.append(number)
        return complete(text, number)

    vlm.completion = counted_tiny

    async def scenario() -> list[tuple[int, int]]:
        probe, seen = VlmProbe(settings(vlm.port), lambda: float("-inf"), lambda: float("-inf")), []
        for later_s in (0.0, 2.0, 1.0, 26.0, 2.5):
            clock[0] += later_s
            await probe.check()
            seen.append((len(asked), len(tiny)))
        await probe.close()
        return seen

    assert asyncio.run(scenario()) == [(1, 1), (1, 1), (2, 1), (3, 1), (4, 2)]


def test_which_weights_read_is_never_a_guess(balancer, vlm, monkeypatch):
    """What is read in small pieces depends on it: a page that comes while the VLM is away is read like any other."""
    monkeypatch.setattr(readiness_module, "ASK_AGAIN_S", 0.05)
    monkeypatch.setattr("docparser.models.vlm_probe.REMEMBERED_S", 0.0)
    monkeypatch.setattr("docparser.models.vlm_probe.is_demo", lambda root: True)
    vlm.root = "/models/demo/PaddleOCR-VL"

    async def scenario() -> None:
        own = settings(balancer.port)
        readiness = Readiness(own, WorkerPool(own), ServedModel.of(own))
        balancer.mode = "503 html"
        with pytest.raises(VlmUnavailable, match="503"):
            await readiness.vlm_is_demo()
        waiting = asyncio.create_task(readiness.vlm_is_demo())
        await asyncio.sleep(0.1)
        balancer.mode = "pass"
        assert await waiting is True
        balancer.mode = "reset"
        await readiness.check()
        assert await readiness.vlm_is_demo() is True, "a VLM that is away keeps its weights"
        await readiness.close()

    asyncio.run(scenario())
