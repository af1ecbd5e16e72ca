# SPDX-License-Identifier: Apache-2.0
"""Processes end and disks fill up while several clients send documents: every document is answered, and nothing hangs.

A client that is told 503 or 429 comes back, as ``Retry-After`` says.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import samples
from conftest import HERE, PARSER, START_S
from test_vlm_faults import own_vlm  # noqa: F401  (a fixture)
from test_workers import children

PAGE = samples.image(size=(600, 800))
CLIENTS, DOCUMENTS = 4, 16


def send_all(service, count: int = DOCUMENTS) -> list[tuple[int, int]]:
    """``count`` documents by CLIENTS clients: the last status of each, and how often it was sent again."""

    def send(number: int) -> tuple[int, int]:
        for again in range(60):
            response = service.parse(PAGE, visualize=False, logId=str(number))
            if response.status_code not in (429, 503):
                assert response.json()["logId"] == str(number)
                return response.status_code, again
            assert int(response.headers["Retry-After"]) > 0
            time.sleep(1.0)
        return response.status_code, 60

    with ThreadPoolExecutor(CLIENTS) as threads:
        return list(threads.map(send, range(count)))


@contextmanager
def away(switch, after_s: float, for_s: float):
    """The VLM ends ``after_s`` and is back ``for_s`` later, while the body runs."""

    def restart():
        time.sleep(after_s)
        switch.down()
        time.sleep(for_s)
        switch.up()

    restarting = threading.Thread(target=restart)
    restarting.start()
    try:
        yield
    finally:
        restarting.join()


def test_the_vlm_ends_and_comes_back_under_load(service, vlm, own_vlm):  # noqa: F811
    vlm.delay_s = 0.5
    with away(own_vlm, after_s=2.0, for_s=9.0):
        answers = send_all(service)
    assert [status for status, _ in answers] == [200] * DOCUMENTS
    assert any(again for _, again in answers), "the VLM was away for longer than the parser is patient"


def test_a_short_absence_of_the_vlm_is_not_noticed(service, vlm, own_vlm):  # noqa: F811
    vlm.delay_s = 0.5
    with away(own_vlm, after_s=1.5, for_s=1.0):
        answers = send_all(service)
    assert answers == [(200, 0)] * DOCUMENTS


def test_workers_are_killed_under_load(service, vlm):
    vlm.delay_s = 0.5
    ended = threading.Event()
    killed = []

    def kill():
        while not ended.wait(1.0) and len(killed) < 2:
            for worker in children(service.process.pid):
                if vlm.in_flight:
                    os.kill(worker, signal.SIGKILL)
                    killed.append(worker)
                    ended.wait(30)

    killing = threading.Thread(target=kill)
    killing.start()
    try:
        answers = send_all(service)
    finally:
        ended.set()
        killing.join()
    assert killed and answers == [(200, 0)] * DOCUMENTS


FULL_DISK = """
import fcntl, json, os, socket, struct, subprocess, sys
from pathlib import Path
with socket.socket() as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", 1))
folder, layout, page = Path(sys.argv[1]), sys.argv[2], sys.stdin.read()
spool = folder / "small"
spool.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(spool)], check=True)
from conftest import Service
from fake_vlm import FakeVlm
service = Service(folder, LAYOUT_MODEL_DIR=layout, VLM_URL=FakeVlm().url, PARSER_SPOOL_DIR=str(spool),
                  PARSER_DATA_DIR=str(folder / "data"))
try:
    service.wait()
    before = service.parse(page, visualize=False)
    (spool / "filler").write_bytes(bytes(240 << 10))
    full = service.parse(page, visualize=False)
    alive = service.client.get("/health").status_code
    (spool / "filler").unlink()
    after = service.parse(page, visualize=False)
    print(json.dumps({"before": before.status_code, "full": full.status_code, "why": full.json()["errorMsg"],
                      "retry": full.headers.get("Retry-After"), "alive": alive, "after": after.status_code}))
finally:
    service.close()
"""


def _can_mount() -> bool:
    command = ["unshare", "--net", "--mount", "--map-root-user", "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(command, capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@pytest.mark.skipif(not _can_mount(), reason="a small disk needs unshare(1), mount(8) and the right to use them")
def test_a_full_disk_is_503_and_nothing_ends(tmp_path, layout_model):
    ran = subprocess.run(
        ["unshare", "--net", "--mount", "--map-root-user", sys.executable, "-c", FULL_DISK, str(tmp_path),
         str(layout_model)],
        input=samples.image("BMP", size=(150, 200)), text=True, capture_output=True, timeout=START_S + 120,
        env={"PYTHONPATH": f"{PARSER}:{HERE}", "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(tmp_path / "home")},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert (answer["before"], answer["full"], answer["alive"], answer["after"]) == (200, 503, 200, 200), answer
    assert "PARSER_SPOOL_DIR" in answer["why"] and answer["retry"]


def test_work_of_a_client_that_left_reaches_the_vlm_no_more(service, vlm):
    vlm.delay_s = 3.0
    with pytest.raises(Exception, match="timed out"):
        service.client.post("/layout-parsing", json={"file": samples.pdf(*[(1240, 1754)] * 6)}, timeout=0.25)
    deadline, asked = time.monotonic() + 60, -1
    while (asked != len(vlm.requests) or vlm.in_flight) and time.monotonic() < deadline:
        asked = len(vlm.requests)
        time.sleep(4.0)  # longer than the VLM takes
    assert len(vlm.requests) == asked < 6 * 7 and vlm.in_flight == 0, (asked, len(vlm.requests), vlm.in_flight)
