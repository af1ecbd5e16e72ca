# SPDX-License-Identifier: Apache-2.0
"""A container that uses half of its dies: which replicas serve, wait, are counted, and how those given up end. The
containers are in tests/images/cpu/test_upgrade.py."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from container import balancer, replica, replicas, status, take_half
from free_ports import free_port
from health_probe import Probe
from tests.support.wait import wait_for
from tool_errors import UsageError


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A container of five dies, on CPU core sets."""
    monkeypatch.setenv("RUN_DIR", str(tmp_path))
    found = {"RUN_DIR": str(tmp_path), "VLM_REPLICAS": "5", "VLM_REPLICA_PORT": "8100", "HARDWARE": "cpu"}
    status.write(found)
    return found


@pytest.mark.parametrize(
    ("half", "per_die", "count", "serving"),
    [
        ("", 1, 5, [0, 1, 2, 3, 4]),
        ("all", 1, 5, [0, 1, 2, 3, 4]),
        ("first", 1, 5, [0, 1, 2]),
        ("second", 1, 5, [3, 4]),
        ("second", 2, 6, [4, 5]),
        ("first", 2, 6, [0, 1, 2, 3]),
    ],
)
def test_a_half(env: dict[str, str], half: str, per_die: int, count: int, serving: list[int]):
    env |= {"VLM_HALF": half, "VLM_REPLICAS": str(count), "VLM_REPLICAS_PER_DIE": str(per_die)}
    assert status.serving(env) == serving
    status.write(env)
    assert json.loads(status.record(env).read_text())["ports"] == [8100 + index for index in serving]


def test_what_was_chosen_last_outlives_the_container_and_wins(env: dict[str, str]):
    env["VLM_HALF"] = "second"
    for half in ("first", "second", "all"):
        take_half.choose(env, half)
        assert replicas.chosen_half(env) == ("" if half == "all" else half)
    found = status.describe(env)
    assert found["configured"] == 5 and found["half"] == ""
    take_half.choose(env, "second")
    found = status.describe(env)
    assert [one["number"] for one in found["replicas"]] == [3, 4] and found["configured"] == 2


def test_one_die_has_no_halves(env: dict[str, str]):
    with pytest.raises(UsageError, match="expected two dies or more"):
        take_half.choose(env | {"VLM_REPLICAS": "2", "VLM_REPLICAS_PER_DIE": "2"}, "first")
    assert replicas.chosen_half(env) == ""


def test_a_replica_waits_until_it_is_chosen(env: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    """Those of the other half, which wait too, do not hold it up: its half's first has nobody to wait for."""
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        take_half.choose(env, "all")

    monkeypatch.setattr(replicas.time, "sleep", sleep)
    take_half.choose(env, "second")
    replicas.wait_until_chosen(env, 3)
    assert waited == []
    replicas.wait_until_chosen(env, 0)
    assert len(waited) == 1
    take_half.choose(env, "second")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(replica.time, "sleep", lambda _: pytest.fail("waits for a replica of the other half"))
    replica.wait_for_turn(3)
    assert replica.turn(env, 4) == (3, replica.TURN_SECONDS)


class SimulatedBalancer:
    """HAProxy's command socket: notes the commands, and says that replica 0 has 5 and replica 1 `in_work` requests."""

    def __init__(self, path: Path) -> None:
        self.commands: list[str] = []
        self.in_work = 1
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.commands.append(connection.makefile().readline().strip())
                if self.commands[-1] == "show stat":
                    rows = f"replicas,replica-0,0,0,5,9\nreplicas,replica-1,0,0,{self.in_work},9\n"
                    connection.sendall(f"# pxname,svname,qcur,qmax,scur\n{rows}".encode())

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture
def haproxy(env: dict[str, str]) -> Iterator[SimulatedBalancer]:
    found = SimulatedBalancer(Path(env["RUN_DIR"]) / "haproxy.sock")
    yield found
    found.close()


@pytest.mark.server
def test_a_replica_that_is_given_up_finishes_its_requests(env: dict[str, str], haproxy: SimulatedBalancer):
    env["VLM_REPLICAS"] = "2"
    server = subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"],
        env={**os.environ, "RUN_DIR": env["RUN_DIR"]},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert server.stdout and server.stdout.readline()
        replica.record(env, 1).write_text(f"{server.pid}\n")
        given_up = threading.Thread(target=take_half.choose, args=(env, "first"))
        given_up.start()
        wait_for(lambda: haproxy.commands.count("show stat") >= 2, 30)
        assert server.poll() is None, "it has a request in work"
        haproxy.in_work = 0
        assert server.wait(30) == -signal.SIGTERM
        given_up.join(30)
        assert haproxy.commands[:2] == [
            "set server replicas/replica-0 state ready",
            "set server replicas/replica-1 state drain",
        ]
    finally:
        server.kill()
        server.wait()
    take_half.choose(env, "all")
    assert haproxy.commands[-2:] == [f"set server replicas/replica-{index} state ready" for index in (0, 1)]


def test_a_replica_that_does_not_end_is_killed(env: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    """So is one whose requests never end: the wait for both is bounded."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(take_half, "DRAIN_SECONDS", 0)
    monkeypatch.setattr(take_half, "END_SECONDS", 0)
    monkeypatch.setattr(take_half, "in_work", lambda env, index: 1)
    monkeypatch.setattr(take_half, "processes", lambda env, index: [4000 + index])
    monkeypatch.setattr(take_half.os, "kill", lambda process, signum: sent.append((process, signum)))
    take_half.choose(env, "first")
    assert sent == [(pid, signum) for signum in (signal.SIGTERM, signal.SIGKILL) for pid in (4003, 4004)]


def test_what_status_sh_is_told(env: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    """Four replicas on the dies 4 and 6, of which one is away; die 5 was left out."""
    env |= {"HARDWARE": "ascend", "VLM_REPLICAS": "4", "VLM_REPLICAS_PER_DIE": "2", "NPU_MISSING": "5"}
    monkeypatch.setattr(status.npu_smi, "device_numbers", lambda: [4, 6])
    monkeypatch.setattr(
        status, "probe", lambda url, timeout: Probe(False, "x" * 900) if ":8102/health" in url else Probe(True, "{}")
    )
    status.write(env)
    # What the start has derived, `docker compose exec` does not see.
    found = status.describe({name: env[name] for name in ("RUN_DIR", "HARDWARE", "NPU_MISSING")})
    assert [(one["number"], one["port"], one["die"], one["up"]) for one in found["replicas"]] == [
        (0, 8100, 4, True),
        (1, 8101, 4, True),
        (2, 8102, 6, False),
        (3, 8103, 6, True),
    ]
    assert [one["detail"] for one in found["replicas"]] == ["", "", "x" * 200, ""]
    assert (found["configured"], found["missing"], found["half"], found["layout"]) == (4, "5", "", None)
    env |= {"HARDWARE": "cpu"}
    assert {one["die"] for one in status.describe(env)["replicas"]} == {None}


@pytest.mark.server
def test_the_balancer_listens_when_a_replica_answers(monkeypatch: pytest.MonkeyPatch):
    ports = [free_port(), free_port()]
    asked: list[str] = []

    def probe(url: str) -> object:
        asked.append(url)
        return type("Probe", (), {"healthy": len(asked) == 4})

    monkeypatch.setattr(balancer, "probe", probe)
    monkeypatch.setattr(balancer.time, "sleep", lambda _: None)
    balancer.wait_for_a_replica(ports)
    assert asked == [f"http://127.0.0.1:{port}/health" for port in ports] * 2
