# SPDX-License-Identifier: Apache-2.0
"""Processes end and disks fill up while several clients send documents: each document still gets its answer.

A client that gets 503 or 429 sends its document again, as `Retry-After` says. Page work is simulated where neither
blocks nor the layout model matter: scheduler, workers and the client of the VLM are the real ones.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest

from tests.support import samples
from tests.support.namespaces import ISOLATED, SMALL_DISK, works
from tests.support.processes import child_environment, children
from tests.support.wait import WAIT_S, wait_for

PAGE = samples.image(size=(600, 800))
CLIENTS, DOCUMENTS = 4, 8
TASKS = ("docparser_running_tasks", "docparser_queue_tasks")


class Clients:
    """CLIENTS clients send DOCUMENTS documents. ``answered``: the numbers of those that have their answer;
    ``told_to_wait`` is set once one was sent away with ``Retry-After``."""

    def __init__(self, service) -> None:
        self.service = service
        self.answered: set[int] = set()
        self.told_to_wait = threading.Event()

    def send_all(self) -> list[tuple[int, int]]:
        """The last status of each document, and how often it was sent again."""
        with ThreadPoolExecutor(CLIENTS) as threads:
            return list(threads.map(self._send, range(DOCUMENTS)))

    def _send(self, number: int) -> tuple[int, int]:
        status = 0
        for again in range(60):
            body = {"file": PAGE, "visualize": False, "logId": str(number)}
            response = self.service.client.post("/layout-parsing", json=body, headers={"Authorization": "Bearer any"})
            if response.status_code not in (429, 503):
                assert response.json()["logId"] == str(number)
                self.answered.add(number)
                return response.status_code, again
            status = response.status_code
            assert int(response.headers["Retry-After"]) > 0
            self.told_to_wait.set()
            time.sleep(1.0)
        return status, 60


@contextmanager
def beside(work):
    """``work()`` in a thread of its own, while the body runs; what it raises is raised at the end."""
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(work)
        yield
        done.result()


def test_the_vlm_ends_and_comes_back_under_load(guarded, page_vlm, own_page_vlm):
    clients = Clients(guarded)

    def restart():
        wait_for(lambda: len(clients.answered) >= 3 and page_vlm.in_flight)
        own_page_vlm.down()
        clients.told_to_wait.wait(WAIT_S)
        own_page_vlm.up()

    page_vlm.delay_s = 1.5
    with beside(restart):
        answers = clients.send_all()
    assert [status for status, _ in answers] == [200] * DOCUMENTS
    assert any(again for _, again in answers), "the VLM was away for longer than the parser is patient"


def test_a_short_absence_of_the_vlm_is_not_noticed(guarded, page_vlm, own_page_vlm):
    clients = Clients(guarded)

    def restart():
        wait_for(lambda: len(clients.answered) >= 3 and page_vlm.in_flight)
        own_page_vlm.down()
        time.sleep(1.0)
        own_page_vlm.up()

    page_vlm.delay_s = 1.5
    with beside(restart):
        answers = clients.send_all()
    assert answers == [(200, 0)] * DOCUMENTS


def test_workers_are_killed_under_load(guarded, page_vlm):
    """The second kill waits for the answers to the pages that the first one hit, because a page is given up when two
    workers die of it."""
    clients = Clients(guarded)
    killed = []

    def kill():
        for _ in range(2):
            wait_for(lambda: page_vlm.in_flight or len(clients.answered) == DOCUMENTS)
            hit = set(range(DOCUMENTS)) - clients.answered
            for worker in children(guarded.process.pid, b"simulated_page_work") if hit else ():
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)
            hit = set(sorted(hit)[:CLIENTS])
            wait_for(partial(hit.issubset, clients.answered))

    page_vlm.delay_s = 0.5
    with beside(kill):
        answers = clients.send_all()
    assert killed and answers == [(200, 0)] * DOCUMENTS


FULL_DISK = """
import json, subprocess, sys
from pathlib import Path
from tests.support.namespaces import loopback_up
loopback_up()
folder, layout, page = Path(sys.argv[1]), sys.argv[2], sys.stdin.read()
spool = folder / "small"
spool.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(spool)], check=True)
from tests.support.parser_process import SIMULATED_WORK, running_service
from tests.support.simulated_vlm import SimulatedVlm, say_prompt
vlm = SimulatedVlm()
vlm.answer = say_prompt
settings = {"LAYOUT_MODEL_DIR": layout, "VLM_URL": vlm.url, "PARSER_SPOOL_DIR": str(spool)}
with running_service(folder, SIMULATED_WORK, **settings) as service:
    before = service.parse(page, visualize=False)
    (spool / "filler").write_bytes(bytes(240 << 10))
    full = service.parse(page, visualize=False)
    alive = service.client.get("/health").status_code
    (spool / "filler").unlink()
    after = service.parse(page, visualize=False)
    print(json.dumps({"before": before.status_code, "full": full.status_code, "why": full.json()["errorMsg"],
                      "retry": full.headers.get("Retry-After"), "alive": alive, "after": after.status_code}))
"""


ALONE = *ISOLATED, "--mount"


@pytest.mark.skipif(
    not works(*ALONE, *SMALL_DISK), reason="a small disk needs unshare(1), mount(8) and the right to use them"
)
def test_a_full_disk_is_503_and_nothing_ends(tmp_path, layout_model):
    ran = subprocess.run(
        [*ALONE, sys.executable, "-c", FULL_DISK, str(tmp_path), str(layout_model)],
        input=samples.image("BMP", size=(150, 200)),
        text=True,
        capture_output=True,
        timeout=WAIT_S + 120,
        env=child_environment(PATH="/usr/bin:/bin:/usr/sbin:/sbin", HOME=str(tmp_path / "home")),
    )
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert (answer["before"], answer["full"], answer["alive"], answer["after"]) == (200, 503, 200, 200), answer
    assert "PARSER_SPOOL_DIR" in answer["why"] and answer["retry"]


def test_work_of_a_client_that_left_reaches_the_vlm_no_more(service, vlm):
    """The document has six pages. Four of them start at most, as many as PARSER_PAGES_IN_FLIGHT allows, and the others
    never do. Fewer start while the VLM has answered little, since then it is asked less at once."""
    body = json.dumps({"file": samples.pdf(*[(1240, 1754)] * 6)})
    client = http.client.HTTPConnection("127.0.0.1", service.port)
    with vlm.holding():
        client.request("POST", "/layout-parsing", body, {"Content-Type": "application/json"})
        wait_for(lambda: vlm.in_flight >= 7 and sum(map(service.metrics().get, TASKS)) == 6)
        assert service.metrics()["docparser_queue_tasks"] >= 2
        client.close()
        wait_for(lambda: service.metrics()["docparser_queue_tasks"] == 0)
    assert service.page(PAGE)["markdown"]["text"]
    assert len(vlm.requests) <= (4 + 1) * 7
    wait_for(lambda: vlm.in_flight == 0 and service.metrics()["docparser_running_tasks"] == 0)
