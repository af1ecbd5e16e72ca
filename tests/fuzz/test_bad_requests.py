# SPDX-License-Identifier: Apache-2.0
"""Generated bad requests over all HTTP interfaces: no 5xx but 503, 505 and 507, no dead process, nothing left on disk,
/health in time throughout.

2,000 requests here; more on demand: ``BAD_REQUESTS=10000 scripts/test.sh fuzz -k requests``.
"""

from __future__ import annotations

import collections
import contextlib
import http.client
import json
import os
import re
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.fuzz import bad_requests
from tests.fuzz.bad_requests import JOBS, BadRequest
from tests.support import samples
from tests.support.parser_process import ParserProcess
from tests.support.processes import children
from tests.support.simulated_vlm import SimulatedVlm, default_answer
from tests.support.wait import WAIT_S, wait_for

COUNT = int(os.environ.get("BAD_REQUESTS", "2000"))
CLIENTS = 6
# The service has no room, or its VLM is away: the client is told when to come back.
ALLOWED = (503, 505, 507)
# Beyond what a process that does nothing else takes at the same time. One of 201 answers took 1.5 s more while two
# other groups ran; a probe waits for 10 s.
HEALTH_S = 5.0
ANSWER_S = 60  # of the clock, for one request; only a request that never ends takes so long
RAW_S = 3.0  # how long a bare connection waits for more, which for half a request never comes


class Clients:
    """Sends requests from several threads; keeps the ids of the jobs that were accepted, and what went wrong."""

    def __init__(self, service: ParserProcess) -> None:
        self._service = service
        self._jobs: list[str] = []
        self._lock = threading.Lock()
        self.statuses: dict[str, collections.Counter[int]] = collections.defaultdict(collections.Counter)
        self.wrong: list[str] = []

    def send(self, number: int) -> None:
        wanted = bad_requests.request(number, self.jobs)
        status, text = self._raw(wanted) if wanted.raw is not None else self._ask(wanted)
        if wanted.path.startswith(JOBS) and status == 200 and (found := re.search(r'"jobId": ?"([\w-]+)"', text)):
            with self._lock:
                self._jobs.append(found[1])
        self.statuses[wanted.kind][status] += 1
        if (status >= 500 and status not in ALLOWED) or status < 0:
            text += self._exception(text)
            self.wrong.append(
                f"request {number} ({wanted.kind}): {wanted.method} {wanted.path[:100]}: {status} {text[:300]}"
            )

    def _exception(self, text: str) -> str:
        """The last line of the exception that the service has logged for an answer."""
        found = re.search(r'"logId": ?"([\w-]+)"', text)
        for line in self._service.log.read_text(errors="replace").splitlines() if found else ():
            if found and found[1] in line and '"exception"' in line:
                return "\n  " + json.loads(line)["exception"].strip().splitlines()[-1]
        return ""

    def jobs(self) -> list[str]:
        """Ids of the jobs that were accepted."""
        with self._lock:
            return list(dict.fromkeys(self._jobs))

    def _ask(self, wanted: BadRequest) -> tuple[int, str]:
        """Status and body; -1 where there was none. A stream of events is left after its first bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self._service.port, timeout=ANSWER_S)
        try:
            connection.putrequest(wanted.method, wanted.path, skip_host=any(k == b"Host" for k, _ in wanted.headers))
            for name, value in wanted.headers:
                connection.putheader(name.decode("latin-1"), value)
            if wanted.body or wanted.method == "POST":
                connection.putheader("Content-Length", str(len(wanted.body)))
            connection.endheaders()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.send(wanted.body)  # a refusal may come before the body is read
            answer = connection.getresponse()
            streamed = "event-stream" in (answer.headers["Content-Type"] or "")
            # Not read(-1): that waits until the connection is closed.
            return answer.status, (answer.read(200) if streamed else answer.read()).decode(errors="replace")
        except (TimeoutError, http.client.RemoteDisconnected, http.client.BadStatusLine) as error:
            return -1, repr(error)
        except ConnectionResetError:
            return 0, "it hung up"  # while it was sent more than it reads; the status of the answer is lost
        finally:
            connection.close()

    def _raw(self, wanted: BadRequest) -> tuple[int, str]:
        """0 where the connection was closed, or kept, without an answer."""
        with socket.create_connection(("127.0.0.1", self._service.port), timeout=ANSWER_S) as connection:
            connection.settimeout(RAW_S)
            data = b""
            with contextlib.suppress(OSError):
                connection.sendall(wanted.raw or b"")
                connection.shutdown(socket.SHUT_WR)
                while b"\r\n" not in data and (piece := connection.recv(4096)):
                    data += piece
        found = re.match(rb"HTTP/1\.\d (\d{3})", data)
        return (int(found[1]) if found else 0), data[:300].decode(errors="replace")


class Idle(threading.Thread):
    """A server that does nothing but answer: what it takes is what the machine takes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.start()

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    def close(self) -> None:
        self._listening.close()


@contextlib.contextmanager
def watched_health(service: ParserProcess) -> Iterator[list[tuple[float, float]]]:
    """(seconds of /health, seconds of a server that does nothing), measured side by side throughout the body."""
    found: list[tuple[float, float]] = []
    over, idle = threading.Event(), Idle()

    def once(port: int) -> float:
        began = time.monotonic()
        answer = httpx.get(f"http://127.0.0.1:{port}/health", timeout=ANSWER_S, trust_env=False)
        assert answer.status_code == 200, answer.text
        return time.monotonic() - began

    def watch() -> None:
        with ThreadPoolExecutor(2) as pair:
            while not over.wait(0.1):
                health, nothing = pair.map(once, (service.port, idle.port))
                found.append((health, nothing))

    with ThreadPoolExecutor(1) as watcher:
        watching = watcher.submit(watch)
        try:
            yield found
        finally:
            over.set()
        watching.result()
        idle.close()


def left_behind(service: ParserProcess) -> list[str]:
    """Files of documents, temporary files and jobs."""
    folder = service.log.parent
    found = [*(folder / "spool").rglob("*"), *(folder / "temporary").rglob("*"), *(folder / "data/jobs").rglob("*")]
    return [str(path.relative_to(folder)) for path in found if not path.is_dir() or path.parent.name == "jobs"]


def descriptors(service: ParserProcess) -> int:
    return len(os.listdir(f"/proc/{service.process.pid}/fd"))


@pytest.mark.skipif(COUNT < 1, reason="BAD_REQUESTS is 0")
def test_bad_requests_over_all_interfaces(service: ParserProcess, vlm: SimulatedVlm):
    clients = Clients(service)
    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(clients.send, range(len(bad_requests.KINDS))))  # caches fill
    before, open_before = children(service.process.pid), descriptors(service)
    vlm.answer = lambda request, number: bad_requests.vlm_answer(number)
    try:
        with watched_health(service) as health, ThreadPoolExecutor(CLIENTS) as threads:
            list(threads.map(clients.send, range(COUNT)))
            # Also while the jobs that were accepted end.
            wait_for(lambda: ended(service), WAIT_S, "all jobs ended")
    finally:
        vlm.answer = default_answer
    print({kind: dict(sorted(counts.items())) for kind, counts in clients.statuses.items()})
    slowest = max(health, key=lambda pair: pair[0])
    median = statistics.median(pair[0] for pair in health)
    print(f"/health: {len(health)} times, median {median:.3f} s, slowest {slowest[0]:.3f} s beside {slowest[1]:.3f} s")

    assert clients.wrong == [], "\n".join(clients.wrong[:20])
    assert service.process.poll() is None and children(service.process.pid) == before, "no process ended"
    assert slowest[0] < HEALTH_S + max(pair[1] for pair in health)
    for job in clients.jobs():
        service.client.delete(f"{JOBS}/{job}?purge=true")
    wait_for(lambda: not left_behind(service), 60, f"an empty disk, not {left_behind(service)[:5]}")
    wait_for(lambda: descriptors(service) < open_before + 20, 60, "descriptors are closed")
    assert service.page(samples.image())["markdown"]["text"]
    # The requests were what they should be: most refused, some read.
    statuses = sum(clients.statuses.values(), collections.Counter())
    assert statuses[200] > COUNT / 50 and sum(statuses[code] for code in range(400, 500)) > COUNT / 2, statuses


def ended(service: ParserProcess) -> bool:
    jobs = service.client.get("/capacity").json()["result"]["jobs"]
    return jobs["pending"] + jobs["running"] == 0


def test_every_interface_is_asked(service: ParserProcess):
    """The paths of the description are those that requests are made for."""
    assert set(service.client.get("/openapi.json").json()["paths"]) == set(bad_requests.PATHS)
    asked = {kind.__name__ for kind in bad_requests.KINDS}
    assert len(asked) == 10 and all(bad_requests.request(number) for number in range(400))


def test_requests_are_the_same_for_the_same_number():
    assert [bad_requests.request(n) for n in range(60)] == [bad_requests.request(n) for n in range(60)]
