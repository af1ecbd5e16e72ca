# SPDX-License-Identifier: Apache-2.0
"""Interactive pages do not wait for a long queue of bulk ones: the service with simulated page work and VLM."""

from __future__ import annotations

import hashlib
import statistics
import time

import pytest

from docparser.contract.request_parts import with_priority
from docparser.jobs.storage.job_order import Eligible
from tests.support import samples
from tests.support.jobs import JobsParser, Start
from tests.support.parser_process import JOBS

TRIES = 3
PAGES = 1000
DELAY_S = 0.4  # of each answer of the VLM: much longer than anything that two busy cores add
KEYS = {"office": "interactive", "archive": "bulk"}


def entry(name: str, priority: str) -> str:
    return f"sha256:{hashlib.sha256(name.encode()).hexdigest()} name={name} priority={priority}"


def as_key(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


def seconds_of_a_page(parser: JobsParser) -> float:
    """The median of several pages, one after the other."""
    taken = []
    for _ in range(TRIES):
        began = time.monotonic()
        body = {"file": samples.image(size=(100, 140)), "visualize": False}
        parser.client.post("/layout-parsing", json=body, headers=as_key("office")).raise_for_status()
        taken.append(time.monotonic() - began)
    return statistics.median(taken)


@pytest.mark.server
def test_a_thousand_bulk_pages_keep_no_interactive_page_waiting(start: Start):
    start.vlm(DELAY_S)
    keys = ",".join(entry(name, priority) for name, priority in KEYS.items())
    parser = start.parser(PARSER_API_KEYS=keys)
    parser.wait()
    refused = parser.submit(samples.pdf_bytes((100, 140)), headers=as_key("office"), priority="urgent")
    assert refused.status_code == 400 and "expected interactive or bulk" in refused.json()["msg"]
    idle = seconds_of_a_page(parser)

    book = samples.pdf_bytes(*[(100, 140)] * (PAGES // 2))
    by_key = parser.submit(book, headers=as_key("archive")).json()["data"]["jobId"]
    by_job = parser.submit(book, headers=as_key("office"), priority="bulk").json()["data"]["jobId"]

    def done() -> int:
        states = [
            parser.client.get(f"{JOBS}/{job}", headers=as_key(name)).json()["data"]["docparser"]["pages"]
            for job, name in ((by_key, "archive"), (by_job, "office"))
        ]
        begun.append(sum(state["running"] for state in states))
        return sum(state["done"] for state in states)

    begun: list[int] = []
    deadline = time.monotonic() + 60
    while done() < 4:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    before = done()
    assert max(begun) >= 2, "bulk pages have more than one place"
    busy = seconds_of_a_page(parser)
    after = done()
    assert PAGES - after > PAGES / 2, "the queue was long all the time"
    assert busy / idle < 1.3, (busy, idle)
    assert after - before >= TRIES, "bulk pages went on"

    began = time.monotonic()
    job = parser.submit(samples.pdf_bytes((100, 140)), headers=as_key("office")).json()["data"]["jobId"]
    while parser.client.get(f"{JOBS}/{job}", headers=as_key("office")).json()["data"]["state"] != "done":
        assert time.monotonic() - began < 10 + 10 * idle, "an interactive job comes before the bulk jobs"
        time.sleep(0.05)


def test_the_queue_of_jobs_takes_interactive_ones_first(open_place):
    place = open_place()
    bulk = place.submit(pages=9, flow=with_priority("a", bulk=True))
    office = place.submit(pages=2, flow="a")
    assert [place.claim().job.id for _ in range(3)] == [office, office, bulk]
    later = place.submit(pages=1, flow="b")
    wanted = place.queue.claim(Eligible(bulk="first"))
    assert wanted is not None and wanted.job.id == bulk
    assert place.claim().job.id == later and place.queue.claim(Eligible(bulk="none")) is None
