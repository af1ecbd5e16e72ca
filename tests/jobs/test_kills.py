# SPDX-License-Identifier: Apache-2.0
"""``kill -9`` of the parser, the VLM, and both, at random moments of a running job. Processes, signals, SQLite and
files are real; the reading of a page is simulated."""

from __future__ import annotations

import os
import random
import time
from collections import Counter

from tests.support.samples import blank_pages as pdf

KILLS = int(os.environ.get("JOB_KILLS", "3"))  # one of each kind; 20 on demand: see docs/benchmarks.md
PAGES = max(24, 2 * KILLS)
VLM_DELAY_S = 0.15


def page_numbers(asked: list[str], job_id: str) -> Counter:
    return Counter(int(line.rsplit(" ", 1)[1]) for line in asked if line.startswith(f"job-{job_id}"))


def test_no_page_is_lost_doubled_or_parsed_again_when_it_was_finished(start):
    chance = random.Random(6)
    vlm = start.vlm(VLM_DELAY_S)
    parser = start.parser(PARSER_PAGES_IN_FLIGHT="2")
    job_id = parser.wait().job(pdf(PAGES))
    for number in range(KILLS):
        parser.wait_for(job_id, lambda state: "extractProgress" in state)
        step = (PAGES - 4) * (number + 1) // (KILLS + 1)
        parser.wait_for(job_id, lambda state, step=step: state["extractProgress"]["extractedPages"] >= step)
        time.sleep(chance.random() * VLM_DELAY_S)
        victims = [[parser], [vlm], [parser, vlm]][number % 3]
        for victim in victims:
            victim.kill()
        if vlm in victims:
            vlm = start.vlm(VLM_DELAY_S)
        if parser in victims:
            parser = start.parser(PARSER_PAGES_IN_FLIGHT="2").wait()
        assert parser.state(job_id)["extractProgress"]["extractedPages"] >= step  # nothing finished was lost
    state = parser.ended(job_id)
    assert state["state"] == "done" and state["docparser"]["pages"] == {
        "queued": 0,
        "running": 0,
        "done": PAGES,
        "failed": 0,
    }
    results = parser.lines(state["resultUrl"]["jsonUrl"])
    texts = [result["layoutParsingResults"][0]["markdown"]["text"] for result in results]
    assert [text.split(" <")[0] for text in texts] == [f"job-{job_id} page {n}" for n in range(1, PAGES + 1)]
    asked = page_numbers(vlm.asked(), job_id)
    assert set(asked) == set(range(1, PAGES + 1))
    # Two pages are in flight, so a kill costs at most two; what was finished before is not parsed again.
    assert sum(asked.values()) <= PAGES + 2 * KILLS
