# SPDX-License-Identifier: Apache-2.0
"""How many replicas of the VLM answer: in metrics, in readiness, and against VLM_MIN_REPLICAS."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest.mock import Mock

import aiohttp
import pytest

from docparser.app import create_app
from docparser.models import vlm_probe
from docparser.models.readiness import Readiness
from docparser.models.served_model import ServedModel
from docparser.models.vlm_probe import ReplicaCount, Replicas, from_page
from docparser.parsing.pool import State, WorkerPool
from docparser.settings import Settings
from tests.support.simulated_vlm import SimulatedVlm

# As operations/container/metrics.py prints it; tests/bundle holds the two together.
PAGE = """# HELP vlm_dies_missing Dies of NPU_IDS that are not there.
# TYPE vlm_dies_missing gauge
vlm_dies_missing 1.0
# HELP vlm_oom_kills_total Processes that ended because the memory limit was reached.
# TYPE vlm_oom_kills_total counter
vlm_oom_kills_total 2.0
# HELP vlm_replica_up Whether the replica answers.
# TYPE vlm_replica_up gauge
vlm_replica_up{replica="0"} 1.0
vlm_replica_up{replica="1"} 0.0
vlm_replica_up{replica="10"} 1.0
"""


@pytest.fixture
def vlm(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vlm_probe, "REPLICAS_REMEMBERED_S", 0.0)
    for name, value in {"HTTP_PROXY": "http://127.0.0.1:1", "http_proxy": "http://127.0.0.1:1", "NO_PROXY": ""}.items():
        monkeypatch.setenv(name, value)  # neither probe asks it
    server = SimulatedVlm()
    yield server
    server.close()


def settings(vlm: SimulatedVlm, **values) -> Settings:
    return Settings(vlm_url=vlm.url, workers=1, **values)


def test_the_page_of_the_container_is_counted():
    assert from_page(PAGE) == Replicas(up=2, configured=3, missing=1, oom_kills=2)
    assert from_page("# TYPE vllm:requests gauge\nvllm:requests 3.0\n") is None


@pytest.mark.parametrize("most", [len(PAGE) - 40, len(PAGE), len(PAGE) + 1])
def test_a_page_that_comes_in_pieces_is_read_to_its_end_or_the_bound(monkeypatch: pytest.MonkeyPatch, most: int):
    monkeypatch.setattr(vlm_probe, "MOST_BYTES", most)

    async def read() -> bytes:
        page = aiohttp.StreamReader(Mock(), 1 << 16, loop=asyncio.get_running_loop())
        reading = asyncio.create_task(vlm_probe.begin_of(page))
        for piece in (PAGE[:300], PAGE[300:]):
            page.feed_data(piece.encode())
            await asyncio.sleep(0)
        page.feed_eof()
        return await reading

    assert asyncio.run(read()).decode() == PAGE[:most]


def blocks() -> str:
    """A condition that waits for a storage. In an event loop, asyncio refuses to run another one."""
    asyncio.run(asyncio.sleep(0))
    return ""


@pytest.mark.server
@pytest.mark.parametrize(("least", "ready"), [(1, True), (2, True), (3, False)])
def test_readiness_wants_as_many_as_the_setting_says(vlm: SimulatedVlm, least: int, ready: bool):
    vlm.metrics = PAGE
    own = settings(vlm, vlm_min_replicas=least)
    pool = WorkerPool(own)
    pool.workers[0].state = State.READY

    async def check():
        found = Readiness(own, pool, ServedModel.of(own))
        found.add_condition("jobs", blocks)
        try:
            return await found.check()
        finally:
            await found.close()

    states, problems = asyncio.run(check())
    assert states["vlm"]["replicas"] == {"up": 2, "configured": 3, "diesMissing": 1}
    assert len(problems) == (not ready)
    assert states["vlm"]["ready"] is ready
    assert [problem for problem in problems if "VLM_MIN_REPLICAS" in problem] == (
        [] if ready else ["2 of 3 replicas of the VLM answer; VLM_MIN_REPLICAS wants 3."]
    )


@pytest.mark.server
def test_a_container_that_is_away_has_no_replica_up(vlm: SimulatedVlm):
    async def twice():
        count = ReplicaCount(settings(vlm))
        vlm.metrics = PAGE
        first = await count.get()
        vlm.close()
        return first, await count.get()

    assert asyncio.run(twice()) == (Replicas(2, 3, 1, 2), Replicas(0, 3, 1, 2))


@pytest.mark.server
def test_a_server_without_replicas_says_nothing(vlm: SimulatedVlm):
    assert asyncio.run(ReplicaCount(settings(vlm)).get()) is None


def test_metrics_relay_the_counts(tmp_path: Path):
    state = create_app(Settings(data_dir=tmp_path)).state
    assert "docparser_vlm_replicas_up" not in state.metrics.exposition().decode(), "the VLM never said how many it has"
    state.readiness.replicas.found = Replicas(15, 16, 0, 2)
    page = state.metrics.exposition().decode()
    assert "docparser_vlm_replicas_up 15.0" in page and "docparser_vlm_replicas_configured 16.0" in page
    assert "docparser_vlm_dies_missing 0.0" in page and "docparser_vlm_oom_kills_total 2.0" in page
