# SPDX-License-Identifier: Apache-2.0
"""Workers that cannot start: the pool says so at once, and gives up where it never had one. The processes are
simulated; tests/parser/test_workers.py starts real ones with broken weights."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from docparser import server
from docparser.errors import NotReady, ParserError
from docparser.parsing import pool
from docparser.parsing.pool import State, WorkerPool
from docparser.settings import Settings
from docparser.worker.messages import Answer, Ready
from docparser.worker.process import ProcessEnded

CAUSE = "The pipeline cannot be set up: libgomp.so.1: cannot open shared object file"


class SimulatedProcess:
    """A worker's process that does what `script` says, one entry a start: an error, or None: it starts, and ends."""

    script: list[ParserError | None] = []

    def __init__(self, settings: Settings, name: str) -> None:
        self._todo = self.script.pop(0) if len(self.script) > 1 else self.script[0]  # the last one repeats
        self._told = False
        self.slot = SimpleNamespace(task=0)

    def receive(self, timeout_s: float | None = None) -> Any:
        if self._told:
            raise ProcessEnded
        self._told = True
        if self._todo is None:
            return Ready("paddle")
        return Answer(0, self._todo)

    def kill(self) -> None: ...

    def end(self) -> None: ...


async def run(monkeypatch: pytest.MonkeyPatch, script: list[ParserError | None], starts: int) -> tuple[WorkerPool, int]:
    """A pool of one worker after that many starts, and how often it gave up."""
    monkeypatch.setattr(pool, "RESTART_PAUSES_S", (0.0,))
    monkeypatch.setattr(pool, "WorkerProcess", SimulatedProcess)
    monkeypatch.setattr(SimulatedProcess, "script", list(script))
    given_up: list[State] = []
    made = WorkerPool(Settings(workers=1))
    made.when_given_up = lambda: given_up.append(made.state)
    ended = threading.Semaphore(0)
    monkeypatch.setattr(SimulatedProcess, "end", lambda process: ended.release())
    listener = SimpleNamespace(on_message=None, on_worker_lost=lambda *_: None, on_no_worker_left=lambda: None)
    made.start(listener)
    for _ in range(starts):
        assert await asyncio.to_thread(ended.acquire, timeout=10)
    made.close()
    return made, len(given_up)


def test_a_pool_that_never_had_a_worker_gives_up(monkeypatch: pytest.MonkeyPatch):
    after_one, given_up = asyncio.run(run(monkeypatch, [NotReady(CAUSE)], 1))
    assert after_one.state is State.BROKEN and CAUSE in after_one.not_ready_because
    _, given_up = asyncio.run(run(monkeypatch, [NotReady(CAUSE)], pool.GIVE_UP_AFTER))
    assert given_up >= 1


def test_a_pool_that_had_a_worker_goes_on(monkeypatch: pytest.MonkeyPatch):
    _, given_up = asyncio.run(run(monkeypatch, [None, NotReady(CAUSE)], 6))
    assert given_up == 0


@pytest.mark.parametrize(
    ("soft", "hard", "raised"), [(1024, 4096, 4096), (1024, -1, 65_536), (1024, 1 << 20, 65_536), (1 << 17, -1, None)]
)
def test_as_many_descriptors_as_connections_may_need(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, raised):
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(server.resource, "getrlimit", lambda kind: (soft, hard))
    monkeypatch.setattr(server.resource, "setrlimit", lambda kind, limits: found.append(limits))
    server._raise_descriptors()
    assert found == ([] if raised is None else [(raised, hard)])


def test_a_service_whose_pool_gave_up_ends_with_status_2(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """uvicorn is simulated: it runs until the service asks it to end."""
    state = SimpleNamespace(not_ready_because=CAUSE, when_given_up=None)
    states = SimpleNamespace(pool=state, readiness=SimpleNamespace(when_other=lambda tell: None))
    monkeypatch.setattr(server, "create_app", lambda settings: SimpleNamespace(state=states))
    monkeypatch.setattr(server, "find_layout_model", lambda settings, verify: None)
    monkeypatch.setattr(server, "configure_logging", lambda level, form: None)

    for name, value in {"BIND": "127.0.0.9", "PORT": "8099", "KEEP_ALIVE_S": "7.5"}.items():
        monkeypatch.setenv(f"PARSER_{name}", value)
    monkeypatch.setenv("PARSER_TRUSTED_PROXIES", "10.0.0.1,10.1.0.0/16")

    def serve(self: Any) -> None:
        config = self.config
        assert (config.host, config.port, config.timeout_keep_alive) == ("127.0.0.9", 8099, 7.5)
        assert (config.proxy_headers, config.forwarded_allow_ips) == (True, "10.0.0.1,10.1.0.0/16")
        assert config.http.registry.settings.keep_alive_s == 7.5 and not config.access_log
        assert not self.should_exit
        state.when_given_up()
        assert self.should_exit

    monkeypatch.setattr(server.uvicorn.Server, "run", serve)
    assert server.main() == 2
    assert f"docparser: no worker could be started: {CAUSE}" in capfd.readouterr().err
    monkeypatch.setattr(server.uvicorn.Server, "run", lambda self: None)
    assert server.main() == 0
