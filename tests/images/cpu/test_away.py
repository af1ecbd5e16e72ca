# SPDX-License-Identifier: Apache-2.0
"""The VLM goes away again and again while one durable job runs: every page is there at the end, none failed.

`AWAY_MOMENTS=20 scripts/test.sh images -k test_away` runs the long form.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter

from bundle.progress import say
from tests.images.client import check_job
from tests.images.project import Project
from tests.support.paths import LETTER
from tests.support.png_pdf import pdf_of

MOMENTS = int(os.environ.get("AWAY_MOMENTS", "3"))
# What is done to the service `vlm`, in turn. The demo VLM needs about a minute on two cores after some of them. The
# short form ends before the fourth: test_recovery makes the container anew in the middle of a job.
KINDS = ("balancer", "pause", "engine", "stop and start", "balancer", "pause", "balancer", "API server", "balancer")
PAGES_BETWEEN = 1
PAUSE_S = 8.0  # longer than the parser's patience


def kill(bundle: Project, part: str) -> None:
    """As soon as there is one: the absence before may not be over yet."""
    bundle.wait_for(lambda: bundle.find("vlm", part), 900, f"a process {part!r}")
    bundle.kill("vlm", part)


def take_away(bundle: Project, kind: str) -> None:
    if kind == "balancer":
        kill(bundle, "haproxy -db")
    elif kind == "pause":
        bundle.compose("pause", "vlm")
        time.sleep(PAUSE_S)
        bundle.compose("unpause", "vlm")
    elif kind == "engine":
        kill(bundle, "EngineCore")
    elif kind == "API server":
        kill(bundle, "vllm serve")
    else:
        bundle.compose("stop", "--timeout", "5", "vlm")
        bundle.compose("start", "vlm")


def test_a_vlm_that_goes_away_at_any_moment_fails_no_page(bundle: Project):
    chance, done = random.Random(14), Counter[str]()
    pages = PAGES_BETWEEN * (MOMENTS + 1) + 1
    bundle.wait_ready()
    restarts = bundle.inspect("vlm")["RestartCount"]
    began, client = time.monotonic(), bundle.client
    job = client.submit(pdf_of(LETTER.read_bytes(), pages))
    for number in range(MOMENTS):
        client.wait_for_pages(job, PAGES_BETWEEN * number + 1)
        time.sleep(chance.random() * 3)
        kind = KINDS[number % len(KINDS)]
        take_away(bundle, kind)
        done[kind] += 1
    check_job(client, job, pages)
    assert bundle.inspect("vlm")["RestartCount"] == restarts, "the container itself must not have ended"
    assert len(bundle.find("vlm", "EngineCore")) <= 1, "the engine of a killed server was not ended"
    say(f"  {MOMENTS} absences ({done}), {pages} pages, {time.monotonic() - began:.0f} s: none failed")
