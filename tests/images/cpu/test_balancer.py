# SPDX-License-Identifier: Apache-2.0
"""HAProxy of the image with our configuration, in front of simulated replicas on loopback: retries, draining, least
load."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from container import balancer
from free_ports import free_port
from tests.images.project import Project
from tests.support.wait import wait_for

MEGABYTE = 2**20


class SimulatedReplica(ThreadingHTTPServer):
    """A simulated replica. `behaviour`: `answer`, `die` (hangs up when it has read a request), `hold` (answers when
    `release` is set)."""

    daemon_threads = True

    def __init__(self) -> None:
        self.behaviour, self.healthy = "answer", True
        self.received: list[int] = []
        self.release = threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    server: SimulatedReplica

    def reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.reply(200 if self.server.healthy else 500, b"ok")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append(len(body))
        if self.server.behaviour == "die":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            self.close_connection = True
            self.connection.close()
            return
        if self.server.behaviour == "hold":
            self.server.release.wait(60)
        self.reply(200, json.dumps({"bytes": len(body), "by": self.server.server_port}).encode())

    def log_message(self, *_: object) -> None:
        pass


class Balancer:
    """One HAProxy container on the host's network, with its replicas."""

    def __init__(self, project: Project, image: str, folder: Path) -> None:
        self.replicas = [SimulatedReplica(), SimulatedReplica()]
        self.port, self._project = free_port(), project
        self._name = f"paddleocr-vl-balancer-{self.port}"
        config = folder / "haproxy.cfg"
        config.write_text(
            balancer.of_replicas(balancer.TEMPLATE.read_text(), [replica.server_port for replica in self.replicas], 16)
        )
        folder.chmod(0o755)
        settings = {"VLM_HOST": "127.0.0.1", "VLM_PORT": self.port, "RUN_DIR": "/tmp", "METRICS_PORT": 9}
        words = [word for name, value in settings.items() for word in ("--env", f"{name}={value}")]
        words += ["--network", "host", "--volume", f"{config}:/haproxy.cfg:ro", "--entrypoint", "haproxy"]
        project.docker("run", "--detach", "--name", self._name, *words, image, "-db", "-f", "/haproxy.cfg")
        wait_for(self.answers, 60)

    def answers(self) -> bool:
        try:
            return self.post(10)["bytes"] == 10
        except OSError:
            return False

    def post(self, size: int) -> dict[str, int]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/chat/completions", b"x" * size)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def signal(self, name: str) -> None:
        self._project.docker("kill", "--signal", name, self._name)

    def running(self) -> bool:
        return self._project.docker("inspect", "--format", "{{.State.Running}}", self._name).stdout.strip() == "true"

    def close(self) -> None:
        self._project.docker("rm", "--force", self._name, check=False)
        for replica in self.replicas:
            replica.shutdown()
            replica.server_close()


@pytest.fixture
def front(build_environment: dict[str, str], cpu_images: dict[str, str], tmp_path: Path) -> Iterator[Balancer]:
    front = Balancer(Project("paddleocr-vl-balancer", build_environment), cpu_images["vlm"], tmp_path)
    yield front
    front.close()


@pytest.mark.parametrize("size", [1000, MEGABYTE, MEGABYTE * 4 // 3 + 2000])
def test_a_request_whose_replica_dies_is_answered_by_another(front: Balancer, size: int):
    """Crops of 1 MB included, which are a third larger as base64."""
    front.replicas[0].behaviour = "die"
    for _ in range(6):
        assert front.post(size) == {"bytes": size, "by": front.replicas[1].server_port}
    assert size in front.replicas[0].received, "the dying replica was never tried"


def test_a_request_that_ends_replicas_is_sent_to_two_of_them(front: Balancer):
    for replica in front.replicas:
        replica.behaviour = "die"
    with pytest.raises(urllib.error.HTTPError) as caught:
        front.post(1000)
    assert caught.value.code == 502
    assert sorted(replica.received.count(1000) for replica in front.replicas) == [1, 1]


def test_a_request_larger_than_the_buffer_passes_but_is_not_tried_again(front: Balancer):
    size = 3 * MEGABYTE
    assert front.post(size)["bytes"] == size
    for replica in front.replicas:
        replica.behaviour = "die"
    with pytest.raises(urllib.error.HTTPError) as caught:
        front.post(size)
    assert caught.value.code == 502


def test_the_replica_with_fewest_requests_gets_the_next(front: Balancer):
    holding, other = front.replicas
    holding.behaviour = other.behaviour = "hold"
    with ThreadPoolExecutor(8) as clients:
        # Two for each: a request that HAProxy still counts when its client has the answer does not make a tie.
        held = [clients.submit(front.post, 99) for _ in range(4)]
        wait_for(lambda: holding.received.count(99) == other.received.count(99) == 2, 30)
        other.behaviour = "answer"
        other.release.set()
        wait_for(lambda: sum(answer.done() for answer in held) == 2, 30)
        quick = [front.post(100)["by"] for _ in range(10)]
        holding.release.set()
        answers = [answer.result()["by"] for answer in held]
    assert sorted(answers) == sorted([holding.server_port, other.server_port] * 2)
    assert quick == [other.server_port] * 10


def test_a_replica_whose_health_fails_gets_nothing(front: Balancer):
    front.replicas[0].healthy = False
    wait_for(lambda: {front.post(10)["by"] for _ in range(6)} == {front.replicas[1].server_port}, 60)


def test_stopping_lets_requests_in_work_end(front: Balancer):
    for replica in front.replicas:
        replica.behaviour = "hold"
    with ThreadPoolExecutor(1) as clients:
        held = clients.submit(front.post, 99)
        wait_for(lambda: any(99 in replica.received for replica in front.replicas), 30)
        front.signal(signal.Signals.SIGUSR1.name)
        time.sleep(1)
        assert front.running() and not held.done()
        for replica in front.replicas:
            replica.release.set()
        assert held.result()["bytes"] == 99
    wait_for(lambda: not front.running(), 40)
