# SPDX-License-Identifier: Apache-2.0
"""Callbacks over HTTP: a real service with simulated page work tells a real receiver on loopback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from free_ports import free_port
from tests.support.callback_receiver import SECRET, Received, Receiver
from tests.support.docs import all_blocks
from tests.support.jobs import JobsParser, Start, VlmProcess
from tests.support.parser_process import JOBS
from tests.support.paths import ROOT
from tests.support.samples import blank_pages, encode
from tests.support.wait import wait_for

DOCUMENTED = free_port()  # where the receiver of the guide listens
PAGE = ROOT / "docs/api.md"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    running = Receiver()
    yield running
    running.close()


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Iterator[Start]:
    starter = Start(tmp_path_factory.mktemp("callbacks"))
    yield starter
    starter.end()


def started(start: Start, receiver: Receiver) -> JobsParser:
    folder = start.folder
    (folder / "secrets").write_text(SECRET)
    return start.parser(
        PARSER_CALLBACK_HOSTS=f"{receiver.hosts},127.0.0.1:{DOCUMENTED}",
        PARSER_CALLBACK_NETWORKS="127.0.0.0/8,::1",
        PARSER_CALLBACK_SECRETS_FILE=str(folder / "secrets"),
        PARSER_CALLBACK_PAUSE_S="0.1",
        PARSER_CALLBACK_TIMEOUT_S="300",
        PARSER_AUDIT_LOG=str(folder / "audit.jsonl"),
    ).wait()


@pytest.fixture(scope="module")
def vlm(start) -> VlmProcess:
    return start.vlm()


@pytest.fixture(scope="module")
def parser(start, receiver, vlm) -> JobsParser:
    return started(start, receiver)


def callback(parser: JobsParser, job_id: str) -> dict:
    return parser.state(job_id)["docparser"]["callback"]


def told(receiver: Receiver, path: str) -> Received:
    """The first request to ``path``, when it is there; others' code verifies its signature."""
    wait_for(lambda: receiver.at(path), what=f"a callback to {path}")
    request = receiver.at(path)[0]
    openai.OpenAI(api_key="none").webhooks.verify_signature(request.body, request.headers, secret=SECRET)
    return request


def test_a_job_tells_its_end_and_where_its_result_is(parser, receiver):
    receiver.answer = lambda path, number: (503 if path == "/form" and number == 1 else 204, {})
    job_id = parser.job(blank_pages(2), callbackUrl=receiver.address("/form"), batchId="told")
    wait_for(lambda: callback(parser, job_id)["state"] == "delivered", what="the second attempt")
    seen = callback(parser, job_id)
    assert seen == {"type": "job.done", "state": "delivered", "attempts": 2, "lastStatus": 204}
    request = told(receiver, "/form")
    data = request.told["data"]
    assert (request.told["type"], data["jobId"], data["state"]) == ("job.done", job_id, "done")
    assert data["batchId"] == "told" and data["docparser"]["pages"]["done"] == 2
    assert request.told["timestamp"] == data["extractProgress"]["endTime"]
    assert "a.pdf" not in request.body.decode() and len(parser.lines(data["resultUrl"]["jsonUrl"])) == 2
    assert [each.id for each in receiver.at("/form")] == [request.id] * 2
    metrics = parser.metrics()
    assert metrics['docparser_callback_attempts_total{outcome="failed"}'] >= 1
    assert metrics['docparser_callback_attempts_total{outcome="delivered"}'] >= 1
    lines = [json.loads(line) for line in (parser.log.parent / "audit.jsonl").read_text().splitlines()]
    (line,) = [line for line in lines if line["event"] == "callback.delivered" and line["job"] == job_id]
    assert (line["state"], line["host"], line["attempts"], line["status"]) == ("done", "127.0.0.1", 2, 204)


def test_a_submission_in_json_and_a_job_that_is_cancelled(parser, receiver, vlm):
    document = f"data:application/pdf;base64,{encode(blank_pages(1))}"
    fields = {"model": "PaddleOCR-VL", "fileUrl": document, "callbackUrl": receiver.address("/json")}
    with vlm.holding():
        job_id = parser.client.post(JOBS, json=fields).json()["data"]["jobId"]
        assert callback(parser, job_id) == {"state": "waiting", "attempts": 0}
        assert parser.client.delete(f"{JOBS}/{job_id}").status_code == 200
    assert told(receiver, "/json").told["type"] == "job.cancelled"


def test_the_same_key_with_another_address_is_another_submission(parser, receiver):
    sent, document = {"Idempotency-Key": "told"}, blank_pages(1)
    first = parser.submit(document, headers=sent, callbackUrl=receiver.address("/key"))
    again = parser.submit(document, headers=sent, callbackUrl=receiver.address("/key"))
    other = parser.submit(document, headers=sent, callbackUrl=receiver.address("/other"))
    assert first.json()["data"]["jobId"] == again.json()["data"]["jobId"] and other.status_code == 422
    without = parser.job(blank_pages(1))
    parser.ended(without)
    assert "callback" not in parser.state(without)["docparser"]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (7, "callbackUrl: expected a string of at most 2048 characters"),
        (["http://127.0.0.1/"], "callbackUrl: expected a string"),
        ("http://127.0.0.1/" + "a" * 2048, "at most 2048 characters"),
        ("mailto:me@example.org", "must be http or https"),
        ("http://elsewhere.example/", "PARSER_CALLBACK_HOSTS"),
        ("http://me:word@127.0.0.1/", "without user and password"),
        ("\ud800", "an unpaired surrogate"),
    ],
)
def test_an_address_that_is_refused_keeps_no_job(parser, url, words):
    document = f"data:application/pdf;base64,{encode(blank_pages(1))}"
    body = json.dumps({"model": "PaddleOCR-VL", "fileUrl": document, "batchId": "refused", "callbackUrl": url})
    answer = parser.client.post(JOBS, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert answer.json()["code"] == 400 and words in answer.json()["msg"]
    assert parser.client.get(f"{JOBS}/batch/refused").status_code == 404


def test_the_receiver_of_the_guide_takes_what_is_signed_and_nothing_else(parser, tmp_path: Path):
    (block,) = [block for block in all_blocks(PAGE) if block.language == "python" and "webhook-id" in block.text]
    (port,) = re.findall(r"\"127\.0\.0\.1\", (\d+)", block.text)
    script = block.text.replace(port, str(DOCUMENTED))
    with (tmp_path / "out").open("wb") as out:
        running = subprocess.Popen(
            [sys.executable, "-c", script], env={**os.environ, "CALLBACK_SECRET": SECRET}, stdout=out, stderr=out
        )
    address = f"http://127.0.0.1:{DOCUMENTED}/"

    def answers() -> int:
        headers = {
            "webhook-id": "1",
            "webhook-timestamp": str(int(time.time())),
            "webhook-signature": "v1,Zm9yZ2Vk",
        }
        try:
            return httpx.post(address, content=b"{}", headers=headers, trust_env=False).status_code
        except httpx.TransportError:
            assert running.poll() is None, (tmp_path / "out").read_text()
            return 0

    try:
        wait_for(answers, what="the receiver of the guide")
        assert answers() == 401, "a forged one"
        job_id = parser.job(blank_pages(1), callbackUrl=address)
        wait_for(lambda: callback(parser, job_id)["state"] == "delivered", what="its callback")
    finally:
        running.terminate()
        running.wait()
    assert f"{job_id} is done" in (tmp_path / "out").read_text()


def test_a_killed_service_sends_again_what_nobody_answered(start, parser, receiver):
    """The last of this module: it ends the parser."""
    job_id = parser.job(blank_pages(1), callbackUrl=receiver.address("/slow"))
    first = told(receiver, "/slow")
    assert callback(parser, job_id)["state"] == "sending"
    parser.kill()
    receiver.released.set()
    again = started(start, receiver)
    wait_for(lambda: callback(again, job_id)["state"] == "delivered", what="the second attempt")
    assert [request.id for request in receiver.at("/slow")] == [first.id] * 2
    assert callback(again, job_id)["attempts"] == 2
