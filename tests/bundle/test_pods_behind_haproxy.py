# SPDX-License-Identifier: Apache-2.0
"""The real HAProxy with the configuration of a cluster's balancer, before simulated pods, with simulated names."""

from __future__ import annotations

import csv
import io
import os
import signal
import socket
import subprocess
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from container import balancer
from free_ports import free_port
from tests.support.simulated_http import JsonHandler, QuietServer
from tests.support.simulated_names import SimulatedNames
from tests.support.system_packages import needs
from tests.support.wait import wait_for

pytestmark = [pytest.mark.server, needs("haproxy")]


class Pod:
    """A simulated pod: an address of its own on loopback that says its name, to /held not before `release` is set."""

    def __init__(self, address: str, port: int, release: threading.Event) -> None:
        self.address, self.held = address, 0
        pod = self

        class Handler(JsonHandler):
            def do_GET(self) -> None:
                if self.path == "/held":
                    pod.held += 1
                    release.wait()
                self.text(200, pod.address)

            def do_POST(self) -> None:
                self.text(200, self.rfile.read(int(self.headers["Content-Length"])).decode())

        self._server = QuietServer((address, port), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def refuse(self) -> None:
        """No new connections, as a pod that ends; requests in work go on."""
        self._server.shutdown()
        self._server.socket.close()


HEADS = "timeout http-request 10s\n"


class Front:
    """HAProxy before pods, on 127.0.0.1. `head_s`: how long a head may take, where that is not as configured."""

    def __init__(self, folder: Path, head_s: int | None = None) -> None:
        self.release = threading.Event()
        self.pod_port, self._port = free_port(), free_port()
        self.pods: dict[str, Pod] = {}
        self.addresses: list[str] = []
        self.names = SimulatedNames(lambda _: self.addresses)
        env = {"VLM_PODS": "vlm-pods.ns.svc.cluster.local", "VLM_PORT": str(self.pod_port)}
        text = balancer.configuration(env | {"VLM_MOST_PODS": "4", "VLM_MAX_NUM_SEQS": "16"})
        assert text.count(HEADS) == 1
        text = text if head_s is None else text.replace(HEADS, f"timeout http-request {head_s}s\n")
        path = folder / "haproxy.cfg"
        path.write_text(text.replace("parse-resolv-conf", f"nameserver simulated 127.0.0.1:{self.names.port}"))
        own = {"RUN_DIR": str(folder), "VLM_HOST": "127.0.0.1", "METRICS_PORT": str(free_port())}
        env = os.environ | own | {"VLM_PORT": str(self._port)}
        self._socket = str(folder / "haproxy.sock")
        self.process = subprocess.Popen(["haproxy", "-db", "-q", "-f", str(path)], env=env)

    def add(self, address: str) -> None:
        """A pod starts, and the name server knows it; returns when HAProxy gives it a request."""
        self.pods[address] = Pod(address, self.pod_port, self.release)
        self.addresses = sorted(self.pods)
        wait_for(lambda: self.ask() == address, what=f"an answer of {address}")

    def ask(self, path: str = "/") -> str:
        """The pod that answers, or the error in words."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}") as answer:
                return answer.read().decode()
        except OSError as error:
            return repr(error)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port))

    def in_work(self) -> int:
        """Requests that pods have, as HAProxy counts them."""
        with socket.socket(socket.AF_UNIX) as own:
            own.connect(self._socket)
            own.sendall(b"show stat replicas 2 -1\n")
            table = own.makefile().read().removeprefix("# ")
        return int(next(csv.DictReader(io.StringIO(table)))["scur"])

    def hold(self, pool: ThreadPoolExecutor, count: int, beside: int) -> list[Future[str]]:
        """Requests that pods do not answer yet, `beside` those that are held already and no others."""
        wait_for(lambda: self.in_work() == beside, what="the end of the requests before")
        before = self.held()
        futures = [pool.submit(self.ask, "/held") for _ in range(count)]
        wait_for(lambda: self.held() == before + count, what="requests at the pods")
        return futures

    def held(self) -> int:
        return sum(pod.held for pod in self.pods.values())

    def close(self) -> None:
        self.release.set()
        self.process.kill()
        self.process.wait()
        self.names.close()


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    made = Front(tmp_path)
    yield made
    made.close()


def test_pods_come_and_go_and_no_request_is_lost(front: Front):
    first, second, third = "127.0.0.2", "127.0.0.3", "127.0.0.4"
    with ThreadPoolExecutor(16) as pool:
        front.add(first)
        front.add(second)
        held = front.hold(pool, 4, beside=0)
        assert {pod.address: pod.held for pod in front.pods.values()} == {first: 2, second: 2}, "fewest in work"
        front.add(third)
        held += front.hold(pool, 2, beside=4)
        assert front.pods[third].held == 2, "the new pod has none in work"

        # A pod ends: its name is still given, it refuses connections, and what it has in work ends.
        front.pods[second].refuse()
        assert {front.ask() for _ in range(12)} <= {first, third}
        front.addresses = [first, third]
        front.release.set()
        assert Counter(future.result() for future in held) == {first: 2, second: 2, third: 2}

        # The balancer ends (preStop: USR1): requests in work are answered first.
        front.release.clear()
        last = front.hold(pool, 2, beside=0)
        front.process.send_signal(signal.SIGUSR1)
        wait_for(lambda: "Connection refused" in front.ask(), what="a closed port")
        front.release.set()
        assert {future.result() for future in last} <= {first, third}
    assert front.process.wait(60) == 0


def test_heads_that_never_end_keep_a_request_waiting_no_longer_than_a_head_may_take(tmp_path: Path):
    """All connections are taken by heads that end nowhere. A body may take longer than a head."""
    front = Front(tmp_path, head_s=1)
    heads: list[socket.socket] = []
    try:
        front.add("127.0.0.2")
        slow = front.connect()
        slow.sendall(b"POST / HTTP/1.1\r\nHost: vlm\r\nContent-Length: 4\r\n\r\nsl")
        for _ in range(600):
            heads.append(front.connect())
            heads[-1].sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: vlm\r\nX: ")
        asked = front.connect()
        asked.sendall(b"GET / HTTP/1.1\r\nHost: vlm\r\n\r\n")
        assert asked.makefile("rb").readline().split()[1] == b"200"
        assert heads[0].recv(100).startswith(b"HTTP/1.1 408 ")
        slow.sendall(b"ow")
        assert slow.makefile("rb").read().endswith(b"\r\n\r\nslow")
    finally:
        for connection in heads:
            connection.close()
        front.close()
