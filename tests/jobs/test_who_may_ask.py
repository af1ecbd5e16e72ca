# SPDX-License-Identifier: Apache-2.0
"""Keys, quotas, hosts and the audit log over HTTP: real services with simulated page work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from docparser.clients.keys import digest
from tests.support import samples
from tests.support.jobs import JobsParser, Start, VlmProcess
from tests.support.parser_process import JOBS
from tests.support.samples import blank_pages as pdf
from tests.support.wait import wait_for

# Client -> what stands behind the hash of its key, which is the name with "-key".
CLIENTS = {
    "plain": "",
    "pages": "pages=5/month",
    "jobs": "jobs=2/month",
    "bytes": "bytes=20kB/month",
    "requests": "requests=3/month",
    "busy": "connections=2",
    "old": "expires=2020-01-01",
    "lister": "",
}
EVIL = "https://evil.example"


def entry(name: str, rest: str = "") -> str:
    return f"sha256:{digest(name + '-key')} name={name} {rest}\n"


def as_client(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}-key"}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory) -> Iterator[tuple[JobsParser, VlmProcess]]:
    """A parser with keys, and its VLM. Its log is text, its audit log a file."""
    folder = tmp_path_factory.mktemp("keyed")
    start = Start(folder)
    (folder / "keys").write_text("".join(entry(*client) for client in CLIENTS.items()))
    vlm = start.vlm()
    parser = start.parser(
        PARSER_API_KEYS_FILE=str(folder / "keys"),
        PARSER_AUDIT_LOG=str(folder / "audit.jsonl"),
        PARSER_ALLOWED_ORIGINS="https://app.example.org",
    )
    yield parser.wait(), vlm
    start.end()


@pytest.fixture
def server(keyed) -> JobsParser:
    parser, _ = keyed
    parser.client.headers.pop("Authorization", None)
    return parser


def audit(parser: JobsParser) -> list[dict]:
    return [json.loads(line) for line in (parser.log.parent / "audit.jsonl").read_text().splitlines()]


def refused(answer: httpx.Response, quota: str, limit: int) -> str:
    assert answer.status_code == 429, answer.text
    body = answer.json()
    assert body["quota"]["name"] == quota and body["quota"]["limit"] == limit
    assert quota.split("/")[0] in body["errorMsg"] and 0 < int(answer.headers["Retry-After"]) <= 31 * 86400 + 1
    return body["errorMsg"]


class TestForeignPages:
    """Without keys, on loopback: what a page in a browser on the same machine could try."""

    def test_a_foreign_page_cannot_submit(self, parser):
        before = parser.client.get("/capacity").json()["result"]
        for headers in ({"Origin": EVIL}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
            answer = parser.submit(pdf(1), headers=headers)
            assert answer.status_code == 403 and "PARSER_ALLOWED_ORIGINS" in answer.json()["errorMsg"]
            assert parser.client.post("/parse", files={"file": ("a.pdf", pdf(1))}, headers=headers).status_code == 403
        assert parser.client.get("/capacity").json()["result"]["jobs"] == before["jobs"]

    def test_a_foreign_name_gets_nothing(self, parser):
        job_id = parser.job(pdf(1), batchId="rebound")
        parser.ended(job_id)
        foreign = {"Host": f"evil.example:{parser.port}"}
        for method, path in (
            *(("GET", path) for path in (f"{JOBS}/{job_id}", f"{JOBS}/batch/rebound", "/capacity", "/docs", "/")),
            *(("DELETE", f"{JOBS}/{job_id}?purge=true"), ("POST", "/parse")),
        ):
            answer = parser.client.request(method, path, headers=foreign)
            assert answer.status_code == 421 and job_id not in answer.text, path
        assert parser.client.get("/health", headers=foreign).status_code == 200, "probes come with any host"
        local = parser.client.get(f"{JOBS}/{job_id}", headers={"Host": f"localhost:{parser.port}"}).json()["data"]
        assert local["resultUrl"]["jsonUrl"].startswith(f"http://localhost:{parser.port}/")

    def test_the_own_page_and_programs_go_on(self, parser):
        for headers in ({"Origin": parser.url, "Sec-Fetch-Site": "same-origin"}, {"Origin": parser.url}, {}):
            answer = parser.submit(pdf(1), headers=headers)
            assert answer.status_code == 200, answer.text

    def test_an_allowed_page_may_write_and_read(self, server):
        app = {"Origin": "https://app.example.org", "Sec-Fetch-Site": "cross-site"}
        asks = {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,x-stainless-arch",
        }
        before = server.client.options(JOBS, headers=app | asks)
        assert before.status_code == 200
        assert before.headers["Access-Control-Allow-Origin"] == "https://app.example.org"
        answer = server.submit(pdf(1), headers=app | as_client("plain"))
        assert answer.status_code == 200
        assert answer.headers["Access-Control-Allow-Origin"] == "https://app.example.org"
        foreign = server.submit(pdf(1), headers={"Origin": EVIL} | as_client("plain"))
        assert foreign.status_code == 403 and "Access-Control-Allow-Origin" not in foreign.headers


class TestKeys:
    def test_an_expired_key_is_told_so(self, server):
        answer = server.client.get("/capacity", headers=as_client("old"))
        assert answer.status_code == 401 and "expired at 2020-01-01" in answer.json()["errorMsg"]
        assert server.client.get("/", headers=as_client("old")).status_code == 200, "public all the same"

    def test_a_key_is_added_and_taken_away_without_a_restart(self, server):
        path = server.log.parent / "keys"
        before = path.read_text()
        environment = os.environ | {"PARSER_API_KEYS_FILE": str(path)}
        command = [sys.executable, "-m", "docparser.api_keys"]
        made = subprocess.run([*command, "make", "--name", "guest"], env=environment, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        sent = {"X-Api-Key": made.stdout.strip()}
        wait_for(lambda: server.client.get("/usage", headers=sent).status_code == 200)
        assert server.client.get("/usage", headers=sent).json()["result"]["name"] == "guest"
        path.write_text(before)
        wait_for(lambda: server.client.get("/usage", headers=sent).status_code == 401)

    def test_a_rotated_key_sees_the_jobs_of_the_one_before(self, server):
        path = server.log.parent / "keys"
        path.write_text(path.read_text() + entry("rotated"))
        wait_for(lambda: server.client.get("/usage", headers=as_client("rotated")).status_code == 200)
        job_id = server.submit(pdf(1), headers=as_client("rotated")).json()["data"]["jobId"]
        environment = os.environ | {"PARSER_API_KEYS_FILE": str(path)}
        command = [sys.executable, "-m", "docparser.api_keys", "rotate", "rotated"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        sent = {"X-Api-Key": done.stdout.strip()}
        wait_for(lambda: server.client.get("/usage", headers=sent).status_code == 200)
        assert server.client.get(f"{JOBS}/{job_id}", headers=sent).status_code == 200
        assert server.client.get(f"{JOBS}/{job_id}", headers=as_client("rotated")).status_code == 200, "for 7 days"


class TestLists:
    """Of the jobs of a key."""

    def test_page_by_page_and_none_of_others(self, server):
        server.client.headers.update(as_client("lister"))
        ids = [server.job(pdf(1), batchId=f"batch-{number % 2}") for number in range(3)]
        for job_id in ids:
            server.ended(job_id)

        def listed(**wanted: object) -> dict:
            answer = server.client.get(JOBS, params=wanted)
            assert answer.status_code == 200, answer.text
            return answer.json()["data"]

        page = listed(limit=2)
        arrived = server.job(pdf(1))
        assert [job["jobId"] for job in page["jobs"]] == [ids[2], ids[1]]
        rest = listed(limit=2, cursor=page["nextCursor"])
        assert [job["jobId"] for job in rest["jobs"]] == [ids[0]] and rest["nextCursor"] is None
        server.ended(arrived)
        state = server.state(ids[0])
        found = rest["jobs"][0]
        assert {**found, "resultUrl": 0, "docparser": 0} == {**state, "resultUrl": 0, "docparser": 0}
        assert found["docparser"].items() <= state["docparser"].items()
        assert httpx.get(found["resultUrl"]["jsonUrl"], trust_env=False).status_code == 200
        assert [job["jobId"] for job in listed(batchId="batch-1")["jobs"]] == [ids[1]]
        assert listed(state=["pending", "failed"]) == {"jobs": [], "nextCursor": None}
        assert len(listed(state=["pending", "done"])["jobs"]) == 4
        others = server.client.get(JOBS, headers=as_client("plain")).json()["data"]["jobs"]
        assert not {arrived, *ids} & {job["jobId"] for job in others}
        assert [job["jobId"] for job in listed(jobId=[ids[0], ids[2], "0" * 32])["jobs"]] == [ids[2], ids[0]]
        answer = server.client.get(JOBS, params={"jobId": ids}, headers=as_client("plain"))
        assert answer.json()["data"]["jobs"] == []
        seen = server.client.get(f"{JOBS}/{ids[0]}/originals/1", headers=as_client("plain"))
        assert seen.status_code == 404 and ids[0] in seen.text

    def test_wrong_parameters_are_named(self, server):
        for name, value in (
            *(("state", "finished"), ("limit", 0), ("limit", 1000), ("limit", "many"), ("stat", "done")),
            *(("cursor", "x"), ("cursor", "1.5-" + "g" * 32), ("batchId", "x" * 200), ("jobId", ["0" * 32] * 101)),
        ):
            answer = server.client.get(JOBS, params={name: value}, headers=as_client("plain"))
            assert answer.status_code == 400 and name in answer.json()["msg"], answer.text

    def test_without_keys_there_is_none(self, parser):
        job_id = parser.job(pdf(1))
        answer = parser.client.get(JOBS)
        assert answer.status_code == 403 and "has no keys" in answer.json()["msg"] and job_id not in answer.text
        named = parser.client.get(JOBS, params={"jobId": job_id}).json()["data"]
        assert [job["jobId"] for job in named["jobs"]] == [job_id] and named["nextCursor"] is None


class TestQuotas:
    def test_pages(self, server):
        me = as_client("pages")
        document = samples.encode(pdf(3))
        assert server.client.post("/layout-parsing", json={"file": document}, headers=me).status_code == 200
        answer = server.client.post("/layout-parsing", json={"file": document}, headers=me)
        assert "2 of 5 pages of documents are left, and 3 are needed" in refused(answer, "pages/month", 5)
        answer = server.client.post("/layout-parsing", json={"file": samples.encode(pdf(6))}, headers=me)
        assert answer.status_code == 413 and "the document has 6 pages" in answer.json()["errorMsg"]

        server.client.headers.update(me)
        state = server.ended(server.job(pdf(3)))
        assert state["state"] == "failed" and "pages=5/month" in state["errorMsg"]
        state = server.ended(server.job(pdf(4), pageRanges="2-3"))
        assert state["state"] == "done"
        refused(server.submit(pdf(1)), "pages/month", 5)
        refused(server.client.post("/parse", files={"file": ("a.pdf", pdf(1))}), "pages/month", 5)
        used = server.client.get("/usage").json()["result"]["quotas"]
        assert [(quota["name"], quota["used"], quota["limit"]) for quota in used] == [("pages/month", 5, 5)]

    def test_jobs_but_not_those_that_are_sent_again(self, server):
        me, document = as_client("jobs"), pdf(1)
        first = server.submit(document, headers=me | {"Idempotency-Key": "a"}).json()["data"]["jobId"]
        again = server.submit(document, headers=me | {"Idempotency-Key": "a"}).json()["data"]["jobId"]
        assert again == first
        assert server.submit(b"no document", headers=me).status_code == 400, "what makes no job does not count"
        assert server.submit(pdf(1), headers=me).status_code == 200
        refused(server.submit(pdf(1), headers=me), "jobs/month", 2)
        refused(server.submit(pdf(1), headers=me | {"Idempotency-Key": "b"}), "jobs/month", 2)
        assert server.submit(document, headers=me | {"Idempotency-Key": "a"}).json()["data"]["jobId"] == first

    def test_bytes_announced_or_not(self, server):
        def send(count: int, announced: bool) -> httpx.Response:
            body = b'{"file": "' + b"A" * count + b'"}'
            content = body if announced else iter([body])
            headers = as_client("bytes") | {"Content-Type": "application/json"}
            return server.client.post("/layout-parsing", content=content, headers=headers)

        refused(send(25_000, announced=True), "bytes/month", 20_000)
        assert send(9_000, announced=True).status_code == 422
        assert send(9_000, announced=False).status_code == 422
        refused(send(9_000, announced=True), "bytes/month", 20_000)
        assert server.client.get("/usage", headers=as_client("bytes")).json()["result"]["quotas"][0]["used"] == 18_024

    def test_requests(self, server):
        me = as_client("requests")
        assert [server.client.get("/capacity", headers=me).status_code for _ in range(3)] == [200] * 3
        refused(server.client.get("/capacity", headers=me), "requests/month", 3)

    def test_connections(self, keyed, server):
        _, vlm = keyed
        url, me = f"{server.url}/parse", as_client("busy")
        answers: list[int] = []

        def ask() -> None:
            files = {"file": ("a.pdf", pdf(1))}
            headers = me | {"X-Request-Id": "job-held"}  # the simulated VLM holds what begins so
            answers.append(httpx.post(url, files=files, headers=headers, trust_env=False, timeout=300).status_code)

        with vlm.holding():
            threads = [threading.Thread(target=ask) for _ in range(2)]
            for thread in threads:
                thread.start()
            # Asked with another key: a request of this one would take a place of the two.
            server.client.headers.update(as_client("plain"))
            wait_for(lambda: server.metrics()["docparser_running_tasks"] == 2)
            answer = server.client.get("/usage", headers=me)
            assert refused(answer, "connections", 2) and answer.headers["Retry-After"] == "5"
            assert server.client.get("/usage", headers=as_client("plain")).status_code == 200
        for thread in threads:
            thread.join(300)
        assert answers == [200, 200]
        # The client has its answer a moment before the place is given back.
        wait_for(lambda: server.client.get("/usage", headers=me).status_code == 200, what="places are given back")


class TestAudit:
    def test_what_is_written_and_what_is_not(self, server):
        server.client.headers.update(as_client("plain"))
        job_id = server.submit(pdf(2), "diagnosis-of-a-patient.pdf").json()["data"]["jobId"]
        server.ended(job_id)
        server.client.post(f"{JOBS}/{job_id}/retry")
        server.client.delete(f"{JOBS}/{job_id}?purge=true", headers={"X-Request-Id": "request-7"})
        server.client.post("/parse", files={"file": ("diagnosis-of-a-patient.pdf", pdf(1))})
        server.client.get("/capacity", headers={"Authorization": "Bearer a-stranger"})
        server.client.get("/capacity", headers=as_client("old"))
        lines = audit(server)
        mine = [line for line in lines if line.get("job") == job_id]
        events = ["job.submitted", "job.retried", "job.cancelled", "job.purged"]
        assert [line["event"] for line in mine] == events
        assert {line["client"] for line in mine} == {"plain"} and {line["address"] for line in mine} == {"127.0.0.1"}
        assert all(line["request_id"] and line["client_id"] == digest("plain-key")[:16] for line in mine)
        assert mine[-1]["request_id"] == "request-7" and mine[0]["outcome"] == "accepted"
        parsed = [line for line in lines if line["event"] == "document.submitted" and line["client"] == "plain"]
        assert parsed[-1]["status"] == 200 and parsed[-1]["bytes"] > 100
        refusals = {line["reason"]: line for line in lines if line["event"] == "request.refused"}
        assert {"key_unknown", "key_expired"} <= refusals.keys()
        assert refusals["key_expired"]["client"] == "old" and "client" not in refusals["key_unknown"]
        text = (server.log.parent / "audit.jsonl").read_text()
        assert not [word for word in ("diagnosis", "a-stranger", "plain-key", digest("plain-key")) if word in text]
        assert (server.log.parent / "audit.jsonl").stat().st_mode & 0o777 == 0o600

    def test_a_file_that_was_moved_away_is_made_anew(self, server):
        path: Path = server.log.parent / "audit.jsonl"
        path.rename(path.with_suffix(".1"))
        server.client.get("/capacity")
        wait_for(path.exists)
        assert audit(server)[-1]["reason"] == "key_missing"

    def test_by_default_it_is_in_the_services_log(self, parser):
        job_id = parser.job(pdf(1))
        wait_for(lambda: f'docparser.audit: job.submitted event="job.submitted" address="127.0.0.1" job="{job_id}"'
                 in parser.log.read_text())  # fmt: skip


def test_metrics_by_client_and_none_of_strangers(server):
    server.client.headers.update(as_client("plain"))
    before = server.metrics()
    server.ended(server.job(pdf(2)))
    for name in ("nobody", "a-stranger"):
        assert server.client.get("/capacity", headers=as_client(name)).status_code == 401
    after = server.metrics()

    def grown(name: str) -> float:
        return after.get(name, 0) - before.get(name, 0)

    assert grown('docparser_client_used_total{client="plain",resource="pages"}') == 2
    assert grown('docparser_client_used_total{client="plain",resource="jobs"}') == 1
    assert grown('docparser_client_used_total{client="plain",resource="bytes"}') > 100
    assert grown('docparser_client_requests_total{client="plain",code="200"}') >= 2
    assert grown('docparser_refused_requests_total{reason="key_unknown"}') == 2
    assert not [name for name in after if "nobody" in name or "stranger" in name or "-key" in name]


def test_a_rotated_link_key_needs_no_restart(parser):
    url = parser.ended(parser.job(pdf(1)))["resultUrl"]["jsonUrl"]
    environment = os.environ | {"PARSER_DATA_DIR": str(parser.log.parent / "data")}

    def rotate(*words: str) -> str:
        command = [sys.executable, "-m", "docparser.link_keys", "rotate", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert "until they expire" in rotate()
    new = parser.ended(parser.job(pdf(1)))["resultUrl"]["jsonUrl"]
    assert [httpx.get(one, trust_env=False).status_code for one in (url, new)] == [200, 200]
    assert "have ended" in rotate("--revoke")
    assert [httpx.get(one, trust_env=False).status_code for one in (url, new)] == [403, 403]
