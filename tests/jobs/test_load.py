# SPDX-License-Identifier: Apache-2.0
"""Two clients with many small jobs beside a client with a long document: turns are fair, the queue stays bounded, and
no job is lost.

`JOB_LOAD=500` runs the large form, whose figures are in docs/benchmarks.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
import time
from typing import cast

from docparser.jobs.service import Changes
from docparser.jobs.storage.transaction import Database
from tests.support.parser_process import JOBS
from tests.support.samples import blank_pages as pdf
from tests.support.wait import WAIT_S, wait_for

SMALL = int(os.environ.get("JOB_LOAD", "15"))  # jobs of each of the two clients
LONG = SMALL * 3 // 5  # pages of the third one's document
MOST = max(5, SMALL // 5)  # jobs that may wait or run


class Client(threading.Thread):
    """Submits ``count`` one-page jobs; when the queue is full it waits as it is told, and comes again."""

    def __init__(self, parser, token: str, count: int) -> None:
        super().__init__()
        self.parser, self.headers, self.count = parser, {"Authorization": f"Bearer {token}"}, count
        self.jobs: list[str] = []
        self.refused = 0

    def run(self) -> None:
        document = pdf(1)
        while len(self.jobs) < self.count:
            answer = self.parser.submit(document, headers=self.headers)
            if answer.status_code == 429:
                self.refused += 1
                assert int(answer.headers["Retry-After"]) > 0 and "PARSER_MAX_QUEUED_JOBS" in answer.json()["msg"]
                time.sleep(0.2)
            else:
                self.jobs.append(answer.json()["data"]["jobId"])


def test_many_small_jobs_beside_a_long_document(start):
    vlm = start.vlm(0.05)
    parser = start.parser(PARSER_MAX_QUEUED_JOBS=str(MOST), PARSER_PAGES_IN_FLIGHT="2").wait()
    began = time.monotonic()
    long = parser.submit(pdf(LONG), headers={"Authorization": "Bearer long"}).json()["data"]["jobId"]
    clients = [Client(parser, token, SMALL) for token in ("one", "two")]
    with vlm.holding():  # until the queue is full for both
        for client in clients:
            client.start()
        wait_for(lambda: all(client.refused for client in clients))
    most_seen = 0
    long_done_at = small_done_at = None
    deadline = time.monotonic() + WAIT_S + 2 * SMALL
    while time.monotonic() < deadline and not (long_done_at and small_done_at):
        jobs = parser.client.get("/capacity").json()["result"]["jobs"]
        most_seen = max(most_seen, jobs["pending"] + jobs["running"])
        if not long_done_at and parser.state(long)["state"] == "done":
            long_done_at = time.monotonic() - began
        if not any(client.is_alive() for client in clients) and jobs["pending"] + jobs["running"] == (
            long_done_at is None
        ):
            small_done_at = time.monotonic() - began
        time.sleep(0.1)
    assert long_done_at and small_done_at, parser.log.read_text()[-3000:]
    assert most_seen <= MOST  # bounded
    for client in clients:  # a refused request was sent again, and succeeded
        for job_id in client.jobs:
            answer = parser.client.get(f"{JOBS}/{job_id}").json()["data"]
            assert answer["state"] == "done" and answer["docparser"]["pages"]["done"] == 1
    # Fair: a third of the turns is the long document's, so it ends well before the small ones, and not at once.
    assert long_done_at < small_done_at
    print(
        f"{2 * SMALL} small jobs, {LONG} pages: long done after {long_done_at:.1f} s, all after {small_done_at:.1f} s; "
        f"{sum(client.refused for client in clients)} times 429, most jobs at once {most_seen} of {MOST}"
    )


def test_watchers_of_jobs_are_woken_one_after_the_other():
    """500 of one client at once, at each page that anybody's job ended, kept all others waiting for seconds."""

    class Changing:
        version = itertools.count().__next__

    async def scenario() -> None:
        with contextlib.ExitStack() as stack:
            changes = stack.enter_context(contextlib.closing(Changes(cast(Database, Changing()))))
            events = [stack.enter_context(changes.watching()) for _ in range(100)]
            waiting = [asyncio.create_task(event.wait()) for event in events]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            assert sum(event.is_set() for event in events) < 50
            await asyncio.wait_for(asyncio.gather(*waiting), WAIT_S)

    asyncio.run(scenario())
