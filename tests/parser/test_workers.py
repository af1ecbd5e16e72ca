# SPDX-License-Identifier: Apache-2.0
"""The service and its requests survive the end of worker processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support import samples
from tests.support.parser_process import SIMULATED_WORK, ParserProcess, running_service
from tests.support.processes import child_environment, children, gone
from tests.support.simulated_vlm import SimulatedVlm, say_prompt, together
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
def two_workers(tmp_path_factory, layout_model, _page_vlm) -> Iterator[ParserProcess]:
    """A service of its own, whose pages are one call of the VLM each; the last test of this group kills it."""
    settings = {
        "VLM_URL": _page_vlm.url,
        "LAYOUT_MODEL_DIR": str(layout_model),
        "PARSER_WORKERS": "2",
        "PARSER_PAGES_IN_FLIGHT": "2",
        "PARSER_PAGE_TIMEOUT_S": "6",
        "SIMULATED_CANCEL_GRACE_S": "4",
    }
    with running_service(tmp_path_factory.mktemp("two"), SIMULATED_WORK, **settings) as service:
        yield service


def its_workers(service: ParserProcess) -> list[int]:
    return children(service.process.pid, b"simulated_page_work")


class TestTwoWorkers:
    def test_pages_of_one_document_are_parsed_together(self, two_workers: ParserProcess, page_vlm: SimulatedVlm):
        wait_for(lambda: workers_ready(two_workers) == 2)
        page_vlm.answer = together(3, say_prompt)
        response = two_workers.parse(samples.pdf(*[(595, 842)] * 3), visualize=False)
        assert response.status_code == 200, response.text
        assert response.json()["result"]["dataInfo"]["numPages"] == 3
        assert page_vlm.max_in_flight == 3, "one worker has two pages at most"

    def test_a_page_that_the_vlm_hangs_on_is_given_up_and_its_worker_goes_on(
        self, two_workers: ParserProcess, page_vlm: SimulatedVlm
    ):
        before = set(its_workers(two_workers))
        with page_vlm.holding():
            response = two_workers.parse(PAGE)
        assert response.status_code == 504
        assert "PARSER_PAGE_TIMEOUT_S" in response.json()["errorMsg"]
        assert two_workers.page(PAGE)["markdown"]["text"]
        assert set(its_workers(two_workers)) == before

    def test_a_worker_that_hangs_is_replaced(self, two_workers: ParserProcess, page_vlm: SimulatedVlm):
        stuck = min(its_workers(two_workers))
        with ThreadPoolExecutor() as threads, page_vlm.holding() as release:
            pages = [threads.submit(two_workers.parse, PAGE, visualize=False) for _ in range(4)]
            # Each worker has two pages, and all of them wait for the VLM. A worker that is stopped in a step on the CPU
            # instead is replaced as well, but only after PARSER_STEP_TIMEOUT_S (180 s).
            wait_for(lambda: len(page_vlm.requests) == 4)
            os.kill(stuck, signal.SIGSTOP)
            release()
            answers = [page.result() for page in pages]
        assert {answer.status_code for answer in answers} == {200, 504}, "those of the other worker are answered"
        wait_for(lambda: stuck not in its_workers(two_workers))
        wait_for(lambda: len(its_workers(two_workers)) == 2)

    def test_workers_end_with_a_service_that_is_killed(self, two_workers: ParserProcess):
        workers = its_workers(two_workers)
        assert len(workers) == 2
        two_workers.process.kill()
        wait_for(lambda: all(map(gone, workers)))


@pytest.mark.server
def test_missing_weights_end_the_service_with_one_line(tmp_path):
    env = child_environment(LAYOUT_MODEL_DIR=str(tmp_path / "nothing"))
    ended = subprocess.run([sys.executable, "-m", "docparser"], env=env, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2
    assert "PP-DocLayoutV2" in ended.stderr and str(tmp_path / "nothing") in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_wrong_setting_ends_the_service_with_one_line(refused_start):
    words = refused_start(PARSER_PORT="99999")
    assert "PARSER_PORT" in words and "99999" in words
    assert len(words.splitlines()) == 1


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://me:hunter2@db/jobs",
        "host=db user=me password=hunter2",
        "postgresql://me:hunt/hunter2@x@db/jobs",
    ],
)
def test_a_mistyped_address_of_the_database_is_named_without_its_password(refused_start, tmp_path, url):
    words = refused_start(PARSER_DATABASE_URL=url, PARSER_DATA_DIR=str(tmp_path))
    assert "PARSER_DATABASE_URL" in words and "hunt" not in words
    assert len(words.splitlines()) == 1


def test_a_bucket_without_a_shared_database_is_refused(refused_start, tmp_path):
    words = refused_start(PARSER_STORAGE_URL="s3://a-bucket/site", PARSER_DATA_DIR=str(tmp_path))
    assert "PARSER_STORAGE_URL: s3://a-bucket/site without PARSER_DATABASE_URL" in words
