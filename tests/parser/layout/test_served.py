# SPDX-License-Identifier: Apache-2.0
"""The parser's side of a layout server: it uses it, goes on by itself while it is away, and says so. With both real,
and under load, in tests/images/cpu/test_layout.py."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from docparser.layout import served
from docparser.layout.served import ON_CPU, SERVED, LayoutServer
from layout_wire import pack
from paddle_program.program import model_checksum
from tests.support.layout_server import DEMO
from tests.support.simulated_layout_server import BOX, SimulatedLayoutServer
from tests.support.wait import wait_for

# They listen on a socket.
pytestmark = pytest.mark.server

PAGE = [np.full((1, 2), 800, np.float32), np.zeros((1, 3, 8, 8), np.float32), np.ones((1, 2), np.float32)]


@pytest.fixture
def simulated() -> Iterator[SimulatedLayoutServer]:
    server = SimulatedLayoutServer(model_checksum(DEMO))
    yield server
    server.close()


@pytest.fixture
def client(simulated, monkeypatch) -> LayoutServer:
    monkeypatch.setattr(served, "FIRST_PAUSE_S", 0.0)
    return LayoutServer(f"http://127.0.0.1:{simulated.port}", DEMO, timeout_s=60.0)


def test_the_results_of_a_page_are_the_callers_own(simulated, client):
    """PaddleX writes into them; views of the message are read-only."""
    found = client.find(PAGE)
    assert found is not None and all(part.flags.writeable for part in found)
    assert np.array_equal(found[0], BOX) and found[1].tolist() == [1]
    assert (client.counts, client.away, simulated.asked) == ({SERVED: 1, ON_CPU: 0}, "", 1)


def test_a_server_that_is_busy_is_not_away(simulated, client):
    simulated.status = 503
    assert client.find(PAGE) is None
    assert client.away == "" and client.counts[ON_CPU] == 1
    simulated.status = 200
    assert client.find(PAGE) is not None
    simulated.status = 500
    assert client.find(PAGE) is None and client.away
    simulated.status = 503
    assert client.find(PAGE) is None and client.away == "", "it is back, and busy"


@pytest.mark.parametrize(
    ("status", "answer", "words"),
    [
        (409, b"", "HTTP 409: simulated"),
        (500, b"", "HTTP 500: simulated"),
        (200, b"nonsense", "the first line is not"),
        (200, pack({"0": BOX, "1": np.full(1, 2, np.int32)}), "not that of a layout model"),
        (200, pack({"0": BOX}), "not that of a layout model"),
    ],
)
def test_a_server_that_cannot_be_used_is_away_until_it_can(simulated, client, status, answer, words):
    simulated.status, simulated.answer = status, answer
    assert client.find(PAGE) is None
    assert words in client.away and client.url in client.away
    simulated.status, simulated.answer = 200, b""
    assert client.find(PAGE) is not None and client.away == ""


def test_a_server_that_is_away_is_asked_after_pauses_only(simulated, client, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(served.time, "monotonic", lambda: now[0])
    client._pause_s = 2.0
    simulated.status = 500
    assert client.find(PAGE) is None and simulated.asked == 1
    for moment, asked in ((101.9, 1), (102.1, 2), (106.0, 2), (106.2, 3), (114.0, 3), (114.3, 4)):
        now[0] = moment
        assert client.find(PAGE) is None
        assert simulated.asked == asked, f"after {moment - 100:.1f} s"


def test_one_page_asks_a_server_that_was_away_and_the_others_do_not_wait(simulated, client):
    simulated.status = 500
    assert client.find(PAGE) is None
    simulated.status = 200
    simulated.free.clear()
    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(client.find, PAGE)
        wait_for(lambda: simulated.asked == 2)
        assert client.find(PAGE) is None and simulated.asked == 2 and not asking.done()
        simulated.free.set()
        assert asking.result() is not None
    assert client.away == ""


def test_a_server_that_was_gone_is_found_again_without_a_page(simulated, client):
    simulated.close()
    assert client.find(PAGE) is None and "refused" in client.away
    client.look_again()
    assert "refused" in client.away
    simulated.open()
    simulated.model = "another"
    client.look_again()
    assert "another model" in client.away
    simulated.model, client._gone = model_checksum(DEMO), True
    client.look_again()
    assert client.away == "" and simulated.asked == 0
    simulated.status = 500
    assert client.find(PAGE) is None
    client.look_again()
    assert "HTTP 500" in client.away, "it is healthy, and its answers are not"


def test_a_connection_that_the_server_closed_meanwhile_is_made_anew(simulated, client):
    assert client.find(PAGE) is not None
    simulated.close()
    simulated.open()
    assert client.find(PAGE) is not None and client.away == ""
