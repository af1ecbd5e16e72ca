# SPDX-License-Identifier: Apache-2.0
"""The service and its requests survive the end of worker processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support import samples
from tests.support.parser_process import ParserProcess
from tests.support.processes import child_environment, children, gone
from tests.support.simulated_vlm import together
from tests.support.wait import wait_for

PAGE = samples.image(size=(600, 800))


def workers_ready(service: ParserProcess) -> int:
    return service.client.get("/health/ready").json()["result"]["layout"]["workersReady"]


def test_the_service_answers_while_pages_are_parsed(service, vlm):
    with ThreadPoolExecutor() as threads, vlm.holding() as release:
        parsing = threads.submit(service.parse, PAGE)
        wait_for(lambda: vlm.in_flight)
        assert service.client.get("/health").status_code == 200
        assert not parsing.done()
        release()
        assert parsing.result().status_code == 200


def test_requests_of_several_clients_are_all_answered(service):
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda _: service.parse(PAGE, visualize=False).status_code, range(12)))
    assert answers == [200] * 12


def test_a_page_survives_the_death_of_its_worker(service, vlm):
    (worker,) = children(service.process.pid)
    with ThreadPoolExecutor() as threads, vlm.holding() as release:
        page = threads.submit(service.page, PAGE)
        wait_for(lambda: vlm.in_flight)
        os.kill(worker, signal.SIGKILL)
        release()
        assert "block of" in page.result()["markdown"]["text"]
    assert children(service.process.pid) not in ([], [worker])


def test_broken_weights_are_named_and_not_ready(start_service, tmp_path, vlm):
    broken = tmp_path / "PP-DocLayoutV2"
    broken.mkdir()
    for name in ("inference.json", "inference.pdiparams", "inference.yml"):
        (broken / name).write_text("{}")
    service = start_service(VLM_URL=vlm.url, LAYOUT_MODEL_DIR=str(broken)).wait("/health")
    wait_for(lambda: "cannot be set up" in service.client.get("/health/ready").json()["errorMsg"])
    body = service.client.get("/health/ready").json()
    assert body["errorCode"] == 503 and str(broken) in body["errorMsg"]
    assert body["result"]["layout"]["state"] == "broken"
    response = service.parse(PAGE)
    assert response.status_code == 503 and "not ready" in response.json()["errorMsg"]


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory, layout_model, _vlm):
    """A service of its own, which the last test of this group kills."""
    folder = tmp_path_factory.mktemp("two")
    settings = {"PARSER_WORKERS": "2", "PARSER_PAGE_TIMEOUT_S": "6"}
    service = ParserProcess(folder, VLM_URL=_vlm.url, LAYOUT_MODEL_DIR=str(layout_model), **settings)
    yield service.wait()
    service.end()


class TestTwoWorkers:
    def test_pages_of_one_document_are_parsed_together(self, two_workers, vlm):
        wait_for(lambda: workers_ready(two_workers) == 2)
        vlm.answer = together(14)
        response = two_workers.parse(samples.pdf(*[(595, 842)] * 4), visualize=False)
        assert response.json()["result"]["dataInfo"]["numPages"] == 4
        assert vlm.max_in_flight >= 14, "the blocks of two pages, and perhaps of a third that is begun"

    def test_a_page_that_the_vlm_hangs_on_is_given_up_and_its_worker_goes_on(self, two_workers, vlm):
        before = set(children(two_workers.process.pid))
        vlm.delay_s = 12.0
        response = two_workers.parse(PAGE)
        assert response.status_code == 504
        assert "PARSER_PAGE_TIMEOUT_S" in response.json()["errorMsg"]
        vlm.delay_s = 0.0
        assert two_workers.page(PAGE)["markdown"]["text"]
        assert set(children(two_workers.process.pid)) == before

    def test_a_worker_that_hangs_is_replaced(self, two_workers, vlm):
        stuck = min(children(two_workers.process.pid))
        with ThreadPoolExecutor() as threads, vlm.holding() as release:
            pages = [threads.submit(two_workers.parse, PAGE, visualize=False) for _ in range(4)]
            # Each worker has two pages of seven blocks, and all of them wait for the VLM. A worker that is stopped in a
            # step on the CPU instead is replaced as well, but only after PARSER_STEP_TIMEOUT_S (180 s).
            wait_for(lambda: len(vlm.requests) == 4 * 7)
            os.kill(stuck, signal.SIGSTOP)
            release()
            answers = [page.result() for page in pages]
        assert {answer.status_code for answer in answers} == {200, 504}, "those of the other worker are answered"
        wait_for(lambda: stuck not in children(two_workers.process.pid))
        wait_for(lambda: len(children(two_workers.process.pid)) == 2)

    def test_workers_end_with_a_service_that_is_killed(self, two_workers):
        workers = children(two_workers.process.pid)
        assert len(workers) == 2, "one that is idle, and one that is still loading its models"
        two_workers.process.kill()
        wait_for(lambda: all(map(gone, workers)))


@pytest.mark.server
def test_missing_weights_end_the_service_with_one_line(tmp_path):
    env = child_environment(LAYOUT_MODEL_DIR=str(tmp_path / "nothing"))
    ended = subprocess.run([sys.executable, "-m", "docparser"], env=env, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2
    assert "PP-DocLayoutV2" in ended.stderr and str(tmp_path / "nothing") in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.server
def test_a_wrong_setting_ends_the_service_with_one_line(tmp_path):
    env = child_environment(PARSER_PORT="99999")
    ended = subprocess.run([sys.executable, "-m", "docparser"], env=env, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2
    assert "PARSER_PORT" in ended.stderr and "99999" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.server
@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://me:hunter2@db/jobs",
        "host=db user=me password=hunter2",
        "postgresql://me:hunt/hunter2@x@db/jobs",
    ],
)
def test_a_mistyped_address_of_the_database_is_named_without_its_password(tmp_path, url):
    env = child_environment(PARSER_DATABASE_URL=url, PARSER_DATA_DIR=str(tmp_path))
    ended = subprocess.run([sys.executable, "-m", "docparser"], env=env, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2 and "PARSER_DATABASE_URL" in ended.stderr
    assert "hunt" not in ended.stdout + ended.stderr
    assert len(ended.stderr.splitlines()) == 1
