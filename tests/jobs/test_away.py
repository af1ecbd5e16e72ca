# SPDX-License-Identifier: Apache-2.0
"""A VLM that is away, in every way that what stands before it can say so: a job waits, and none of its pages fails.

The client of the VLM is the real one; the VLM and the balancer before it are simulated.
"""

from __future__ import annotations

import random
import time
from functools import partial

import pytest

from tests.support.jobs import JobsParser
from tests.support.samples import blank_pages
from tests.support.simulated_balancer import SimulatedBalancer
from tests.support.wait import wait_for

PAGES = 60
SHORT, LONG = 0.2, 1.5  # seconds: within the parser's patience, and beyond it
PATIENCE = "0.5"
KINDS = ["502 html", "503 html", "503 json", "504 json", "reset", "half", "close", "kill"]


@pytest.fixture
def balancer(start):
    vlm = start.vlm(0.05)
    front = SimulatedBalancer(vlm.port)
    yield front
    front.mode = "pass"
    front.close()


def parser_behind(start, balancer: SimulatedBalancer, **settings: str) -> JobsParser:
    url = f"http://127.0.0.1:{balancer.port}/v1"
    parser = start.parser(VLM_URL=url, PARSER_VLM_PATIENCE_S=PATIENCE, **{"PARSER_PAGES_IN_FLIGHT": "6", **settings})
    return parser.wait()


def has_answered(balancer: SimulatedBalancer, blocks: int) -> bool:
    return balancer.answered >= blocks


@pytest.mark.long
def test_twenty_absences_at_random_moments_fail_no_page(start, balancer):
    """Each kind comes at least twice, some shorter than the parser's patience and some longer."""
    chance = random.Random(14)
    parser = parser_behind(start, balancer)
    job_id = parser.job(blank_pages(PAGES))
    kinds = (KINDS * 3)[:20]
    chance.shuffle(kinds)
    for number, kind in enumerate(kinds):
        wait_for(partial(has_answered, balancer, 2 * number + 1))
        time.sleep(chance.random() * 0.1)
        if kind == "close":
            balancer.close()
        elif kind == "kill":
            start.running[0].kill()
        else:
            balancer.mode = kind
        time.sleep(chance.choice((SHORT, LONG)))
        if kind == "close":
            balancer.open()
        elif kind == "kill":
            start.running[0] = start.vlm(0.05)
        balancer.mode = "pass"
    state = parser.ended(job_id)
    pages = {"queued": 0, "running": 0, "done": PAGES, "failed": 0}
    assert (state["state"], state["docparser"]["pages"]) == ("done", pages), state
    results = parser.lines(state["resultUrl"]["jsonUrl"])
    texts = [result["layoutParsingResults"][0]["markdown"]["text"].split(" <")[0] for result in results]
    assert texts == [f"job-{job_id} page {number}" for number in range(1, PAGES + 1)]
    assert not any("blocks" in result["docparser"]["pages"][0] for result in results)


def test_a_job_says_what_it_waits_for_and_goes_on_by_itself(start, balancer):
    parser = parser_behind(start, balancer)
    job_id = parser.job(blank_pages(20))
    wait_for(partial(has_answered, balancer, 5))
    balancer.mode = "503 html"
    state = parser.wait_for(job_id, lambda state: state["docparser"].get("waitsFor"))
    words = state["docparser"]["waitsFor"]
    assert "VLM server" in words and "<" not in words
    ready = parser.client.get("/health/ready")
    assert ready.status_code == 503 and "<" not in ready.json()["errorMsg"], "earlier blocks prove nothing any more"
    balancer.mode = "pass"
    parser.wait_for(job_id, lambda state: not state["docparser"].get("waitsFor"))
    assert parser.ended(job_id)["docparser"]["pages"]["done"] == 20


@pytest.mark.long
def test_a_page_that_the_vlm_fails_on_ends_and_the_others_do_not_wait_for_it(start, balancer):
    """`fail` makes the VLM answer 500 for a page, while it answers for the others."""
    (start.folder / "fail").write_text("2")
    parser = parser_behind(start, balancer)
    job_id = parser.job(blank_pages(4))
    state = parser.ended(job_id)
    assert state["docparser"]["pages"] == {"queued": 0, "running": 0, "done": 3, "failed": 1}
    (failed,) = state["docparser"]["failedPages"]
    assert failed["page"] == 2 and "told to fail" in failed["message"]
    (start.folder / "fail").unlink()
    assert parser.client.post(f"/api/v2/ocr/jobs/{job_id}/retry").json()["data"]["pages"] == 1
    assert parser.ended(job_id)["docparser"]["pages"]["done"] == 4


def test_where_the_operator_wants_so_submissions_end_when_the_vlm_has_long_been_away(start):
    """By default they are kept, and wait. After 0.01 minutes here they get 503 until the VLM is back."""
    vlm = start.vlm()
    parser = start.parser(PARSER_VLM_PATIENCE_S=PATIENCE, PARSER_JOB_VLM_AWAY_MINUTES="0.01").wait()
    vlm.kill()
    wait_for(lambda: parser.submit(blank_pages(1)).status_code == 503)
    refused = parser.submit(blank_pages(1))
    assert refused.json()["msg"].startswith("The VLM server has been away for 0 minutes.")
    assert refused.json()["code"] == 503 and int(refused.headers["Retry-After"]) > 0
    start.vlm()
    wait_for(lambda: parser.submit(blank_pages(1)).status_code == 200)
