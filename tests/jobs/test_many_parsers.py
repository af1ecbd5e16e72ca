# SPDX-License-Identifier: Apache-2.0
"""Three parsers over one PostgreSQL and one data directory or bucket: ``kill -9`` of parsers, of PostgreSQL and of
Swift at random moments, and each of them away. Processes, signals, PostgreSQL, Swift and files are real; the reading of
a page is simulated, and the directory is a local one in place of a network's. What a parser asks of a bucket is cut on
its way in test_bucket."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support.jobs import JobsParser, Start, VlmProcess
from tests.support.parser_process import JOBS
from tests.support.postgres import PostgresServer
from tests.support.s3 import BucketServer
from tests.support.samples import blank_pages as pdf
from tests.support.wait import wait_for

# Several parsers on one PostgreSQL and one bucket; test_kills has one parser, test_store both databases.
pytestmark = pytest.mark.long

SMALL = int(os.environ.get("JOB_MANY", "12"))  # jobs besides the long one
LONG = max(20, SMALL // 2)  # pages of its document
KILLS = int(os.environ.get("JOB_KILLS", "4"))  # 20 on demand: see docs/benchmarks.md
IN_FLIGHT = 2
VLM_DELAY_S = 0.15
AWAY_S = float(os.environ.get("JOB_AWAY_S", "0"))  # how much longer the bucket is away than until all have noticed
RATE_PAGES = int(os.environ.get("JOB_RATE_PAGES", "30"))  # of six documents
RATE_DELAY_S = 0.8


class Site:
    """Parsers that share a queue."""

    def __init__(
        self,
        start: Start,
        postgres: PostgresServer,
        s3: BucketServer | None,
        parsers: int = 3,
        delay_s: float = VLM_DELAY_S,
    ) -> None:
        """``s3``: documents and results lie in a bucket there, else in a directory. ``delay_s``: of a page's call."""
        self.start, self.postgres, self.s3 = start, postgres, s3
        self.settings = {"PARSER_PAGES_IN_FLIGHT": str(IN_FLIGHT), "PARSER_DATABASE_URL": postgres.database()}
        if s3 is not None:
            self.settings |= s3.environment | {"PARSER_STORAGE_URL": s3.bucket()}
        self.vlm: VlmProcess = start.vlm(delay_s)
        self.parsers = [self.parser() for _ in range(parsers)]

    def parser(self) -> JobsParser:
        return self.start.parser(**self.settings)

    def asked(self, *jobs: str) -> Counter[str]:
        """How often each page of the jobs was read: `job-<id> page <n>`."""
        return Counter(line for line in self.vlm.asked() if line[4:36] in jobs)

    def wait_for_pages(self, count: int, *jobs: str) -> None:
        """Until the VLM has begun to read so many pages of the jobs."""
        wait_for(lambda: len(self.asked(*jobs)) >= count, what=f"{count} pages")


@pytest.fixture(scope="module", params=["directory", "swift"])
def site(request, tmp_path_factory, postgres) -> Iterator[Site]:
    start = Start(tmp_path_factory.mktemp("site"))
    made = Site(start, postgres, request.getfixturevalue("swift") if request.param == "swift" else None)
    for parser in made.parsers:
        parser.wait()
    yield made
    postgres.start_if_killed()
    if made.s3 is not None:
        made.s3.start_if_killed()
    start.end()


def unready(parser: JobsParser) -> str:
    """Why the parser is not ready, as soon as it says so."""
    wait_for(lambda: parser.client.get("/health/ready").status_code == 503, what="readiness that says no")
    return parser.client.get("/health/ready").json()["errorMsg"]


def follow(parser: JobsParser, job_id: str) -> str:
    """The job's state at the end of its stream of events."""
    with parser.client.stream("GET", f"{JOBS}/{job_id}/events") as answer:
        told = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line.startswith("data: ")]
    return [data["state"] for data in told if "state" in data][-1]


def test_no_page_is_lost_doubled_or_parsed_twice_by_kills(site):
    chance = random.Random(19)
    sizes = {site.parsers[0].job(pdf(LONG)): LONG}
    for number in range(SMALL):
        sizes[site.parsers[number % 3].job(pdf(1))] = 1
    whole = sum(sizes.values())
    deaths = 0
    for number in range(KILLS):
        step = (whole - 8) * (number + 1) // (KILLS + 1)
        site.wait_for_pages(step, *sizes)
        time.sleep(chance.random() * VLM_DELAY_S)
        if number % 2:
            away = site.s3 if site.s3 is not None and number % 4 == 1 else site.postgres
            away.kill()
            time.sleep(chance.random())
            away.start()
        else:
            victim = chance.randrange(3)
            site.parsers[victim].kill()
            deaths += 1
            site.parsers[victim] = site.parser()
    for parser in site.parsers:
        parser.wait()
    for number, (job_id, size) in enumerate(sizes.items()):
        state = site.parsers[number % 3].ended(job_id)
        assert state["state"] == "done" and state["docparser"]["pages"]["done"] == size, state
        results = site.parsers[number % 3].lines(state["resultUrl"]["jsonUrl"])
        texts = [result["layoutParsingResults"][0]["markdown"]["text"].split(" <")[0] for result in results]
        assert texts == [f"job-{job_id} page {page}" for page in range(1, size + 1)]
    asked = site.asked(*sizes)
    assert set(asked) == {f"job-{job_id} page {page}" for job_id, size in sizes.items() for page in range(1, size + 1)}
    # Only what a parser had in work when it was killed is parsed again; the end of PostgreSQL or of the bucket costs
    # no page.
    again = sum(asked.values()) - whole
    assert again <= deaths * IN_FLIGHT, [page for page, times in asked.items() if times > 1]


def test_while_postgresql_is_away_clients_are_told_and_jobs_go_on_afterwards(site):
    job_id = site.parsers[0].job(pdf(12))
    site.wait_for_pages(3, job_id)
    site.postgres.kill()
    for parser in site.parsers:
        answer = parser.submit(pdf(1))
        assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0, answer.text
        assert "PARSER_DATABASE_URL" in answer.json()["msg"], answer.text
        assert parser.client.get(f"{JOBS}/{job_id}").status_code == 503
        assert parser.client.get("/health").status_code == 200
        assert "PARSER_DATABASE_URL" in unready(parser)
    site.postgres.start()
    for parser in site.parsers:
        parser.wait()
    assert {follow(parser, job_id) for parser in site.parsers} == {"done"}, "events come from whichever is asked"
    for parser in site.parsers:
        assert parser.ended(job_id)["docparser"]["pages"]["done"] == 12
    assert set(site.asked(job_id).values()) == {1}


def test_while_the_bucket_is_away_clients_are_told_and_jobs_go_on_afterwards(site):
    if site.s3 is None:
        pytest.skip("these parsers share a directory")
    job_id = site.parsers[0].job(pdf(12))
    site.wait_for_pages(3, job_id)
    site.s3.kill()
    for parser in site.parsers:
        assert "PARSER_STORAGE_URL" in unready(parser)
        answer = parser.submit(pdf(1))
        assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0, answer.text
        assert "PARSER_STORAGE_URL" in answer.json()["msg"], answer.text
        assert parser.client.get("/health").status_code == 200
    time.sleep(AWAY_S)
    site.s3.start()
    for parser in site.parsers:
        parser.wait()
        assert parser.ended(job_id)["docparser"]["pages"]["done"] == 12
    assert set(site.asked(job_id).values()) == {1}, "a page that was read waits for the bucket"


def test_pictures_and_all_formats_of_a_result_come_from_whichever_parser_is_asked(site):
    job_id = site.parsers[0].job(pdf(2))
    site.parsers[0].ended(job_id)
    for parser in site.parsers:
        for form in ("md", "json", "html", "docx", "pdf", "zip"):
            answer = parser.client.get(f"{JOBS}/{job_id}/result", params={"format": form})
            assert answer.status_code == 200 and answer.content, (form, answer.text)


@pytest.mark.server
def test_three_parsers_do_more_than_one(start, postgres, s3):
    # The VLM's time is what a page costs here: two cores would be the bound of three parsers otherwise.
    seconds = {}
    site = Site(start, postgres, s3, parsers=1, delay_s=RATE_DELAY_S)
    for count in (1, 3):
        site.parsers += [site.parser() for _ in range(count - len(site.parsers))]
        for parser in site.parsers:
            parser.wait()
        began = time.monotonic()
        jobs = [site.parsers[number % count].job(pdf(RATE_PAGES // 6)) for number in range(6)]
        for job_id in jobs:
            assert site.parsers[0].ended(job_id)["state"] == "done"
        seconds[count] = time.monotonic() - began
        assert set(site.asked(*jobs).values()) == {1}
    print(
        f"{RATE_PAGES} pages: { ({count: round(RATE_PAGES / taken, 2) for count, taken in seconds.items()}) } pages/s"
    )
    assert seconds[1] > 1.5 * seconds[3], seconds
