# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of bench_hostile.py, and its hostile clients against a server that counts them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

import bench_hostile
from bench_hostile import Round
from parser_bench.hostile_traffic import MARK, Target, repeated
from tests.support.simulated_http import JsonHandler, SimulatedServer


def seen(latencies: list[float], probes: list[float], onset: float = 0.0) -> Round:
    return Round(8, latencies, probes, wall_s=2.0, onset_pages_per_second=onset, cpu_s={"pages": 1.0})


def test_a_row_has_the_median_of_the_pairs_and_the_worst_beginning():
    quiet = [seen([2.0, 2.0], [0.01] * 20), seen([1.0], [0.01] * 20), seen([4.0], [0.01] * 20)]
    hostile = [seen([4.0], [0.02] * 19 + [0.5], 3.0), seen([1.0], [0.02] * 20, 2.0), seen([5.0], [0.02] * 20, 2.0)]
    row = bench_hostile.row("paths", list(zip(quiet, hostile, strict=True)))
    assert row["ratios"] == [0.5, 1.0, 0.8] and row["ratio"] == 0.8
    assert (row["quiet_pages_s"], row["hostile_pages_s"]) == (4.0, 2.0)
    assert row["onset"] == 0.25, "two of eight pages a second"
    assert (row["quiet_health_p95_ms"], row["hostile_health_p95_ms"]) == (10.0, 20.0)
    assert row["hostile_cores"] == {"pages": 0.5}


def test_an_unknown_kind_is_named(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bench_hostile.py", "path"])
    with pytest.raises(SystemExit):
        bench_hostile.main()
    assert "KIND: path is unknown" in capsys.readouterr().err


class Counting(SimulatedServer):
    """Refuses everything, and keeps what it was sent, by client's address."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        super().__init__()

    def handler(self) -> type[JsonHandler]:
        server = self

        class Handler(JsonHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                server.sent.append((self.client_address[0], body))
                self.text(401, "no")

        return Handler


@pytest.fixture
def counting() -> Iterator[Counting]:
    server = Counting()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.mark.server
def test_requests_come_from_several_addresses_and_no_document_twice(counting: Counting):
    target = Target("127.0.0.1", counting.port, "")
    attack = repeated([target.request("POST", "/parse", b"a " + MARK)], at_once=4, per_second=200, sources=3)

    async def for_a_while() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(60):
                work = asyncio.ensure_future(attack(target))
                while len(counting.sent) < 12:
                    await asyncio.sleep(0.01)
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)

    asyncio.run(for_a_while())
    addresses, bodies = zip(*counting.sent, strict=True)
    assert set(addresses) == {"127.0.0.2", "127.0.0.3", "127.0.0.4"} and len(set(bodies)) == len(bodies) >= 12
    assert set(target.statuses) <= {401, 0} and target.statuses[401] >= 8
