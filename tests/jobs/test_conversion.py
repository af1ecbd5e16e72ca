# SPDX-License-Identifier: Apache-2.0
"""Conversions of a running service: hostile documents end at a bound, and others do not notice."""

from __future__ import annotations

import io
import json
import os
import signal
import statistics
import time
import zipfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.jobs import JobsParser, Start
from tests.support.parser_process import JOBS
from tests.support.processes import children
from tests.support.samples import blank_pages
from tests.support.wait import wait_for

PAGE = blank_pages(1)
HONEST = "# Wells\n\nThe mean is $ x^2 $.\n\n<table><tr><td>a</td><td>1</td></tr></table>\n"
# Numbered, because the VLM's client cuts what repeats itself.
HOSTILE = "".join(f"$x_{{{i}}}$ " for i in range(80_000))  # each formula is translated, in pure Python
CLIENTS = 8
SHARE = 6  # of PARSER_CHILD_TASKS, what one client has
SPANS = "<table><tr>" + "".join(f"<td rowspan=200 colspan=200>{i}</td>" for i in range(270)) + "</table>"
OPENED = ["".join(f"{sign}a{i} " for i in range(20_000)) for sign in ("\\[", "\\(")]


@pytest.fixture(scope="module")
def bounded(tmp_path_factory):
    """``(parser, says)``: conversions have a second of processor time, on a busy machine 15 s, and a MiB of output;
    ``says(text)``: the page's Markdown."""
    starter = Start(tmp_path_factory.mktemp("bounded"))
    vlm = starter.vlm()

    def says(text: str) -> None:
        (vlm.folder / "say").write_text(json.dumps({"text": text}))

    bounds = {"PARSER_CHILD_CPU_S": "1", "PARSER_CHILD_WALL_S": "15", "PARSER_CHILD_OUTPUT_MIB": "1"}
    yield starter.parser(**bounds).wait(), says
    starter.end()


def parse(parser: JobsParser, format: str, name: str = "wells.pdf") -> httpx.Response:
    """The simulated VLM says what it was told to for requests whose id begins with ``job-``."""
    headers = {"X-Request-Id": "job-sync"}
    return parser.client.post("/parse", params={"format": format}, files={"file": (name, PAGE)}, headers=headers)


@pytest.mark.long
def test_a_conversion_beyond_its_bound_is_a_clear_error_and_the_result_stays(bounded):
    parser, says = bounded
    says(HOSTILE)
    refused = parse(parser, "html")
    assert refused.status_code == 413 and refused.json()["errorCode"] == 413
    assert "html" in refused.json()["errorMsg"] and "PARSER_CHILD_" in refused.json()["errorMsg"]
    assert HOSTILE[:1000] in parse(parser, "md").text, "other formats are there"
    job_id = parser.job(PAGE)
    assert parser.ended(job_id)["state"] == "done"
    refused = parser.client.get(f"{JOBS}/{job_id}/result", params={"format": "html"})
    assert refused.status_code == 413 and "PARSER_CHILD_" in refused.json()["msg"]
    state = parser.state(job_id)
    assert state["state"] == "done" and parser.lines(state["resultUrl"]["jsonUrl"])
    assert parser.client.get(f"{JOBS}/{job_id}/result", params={"format": "md"}).status_code == 200


@pytest.mark.parametrize("text", [SPANS, *OPENED])
def test_what_froze_the_service_is_converted(bounded, text):
    """Each of these took tens of seconds or gigabytes in the service's own process."""
    parser, says = bounded
    says(text)
    for format in ("html", "xlsx", "zip"):
        answer = parse(parser, format)
        assert answer.status_code == 200, answer.text


def health_while(parser: JobsParser, running: list[Future]) -> list[float]:
    """How long ``/health`` took, again and again until all of ``running`` are done."""
    times: list[float] = []
    while not all(work.done() for work in running):
        began = time.monotonic()
        assert parser.client.get("/health").status_code == 200
        times.append(time.monotonic() - began)
        time.sleep(0.02)
    return times


@pytest.mark.long
def test_the_service_answers_while_hostile_documents_are_converted(bounded):
    """Health and another client's good page, compared with as many honest documents at a time on the same machine."""
    parser, says = bounded
    says(HONEST)
    with ThreadPoolExecutor(CLIENTS) as threads:
        running = [threads.submit(parse, parser, "html") for _ in range(6 * CLIENTS)]
        honest = health_while(parser, running)
        assert {work.result().status_code for work in running} == {200}
    says(HOSTILE)
    job_id = parser.job(PAGE)
    parser.ended(job_id)
    says(HONEST)
    address = f"{parser.url}{JOBS}/{job_id}/result?format=html"
    elsewhere = httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"), timeout=300)
    with ThreadPoolExecutor(CLIENTS) as threads, elsewhere:
        running = [threads.submit(elsewhere.get, address) for _ in range(CLIENTS)]
        wait_for(lambda: len(zygote_children(parser)) >= SHARE)
        good = parse(parser, "html")
        assert good.status_code == 200 and "<math" in good.text
        assert not all(work.done() for work in running), "the good page did not wait for the others"
        hostile = health_while(parser, running)
        assert {work.result().status_code for work in running} == {413}
    assert len(hostile) > 10, "no answer waited for a conversion"
    assert max(hostile) < max(honest) * 4 + 1.0
    assert statistics.median(hostile) < statistics.median(honest) * 4 + 0.1


def zygote_of(parser: JobsParser) -> int:
    (zygote,) = children(parser.process.pid, b"docparser.sandbox.zygote")
    return zygote


def zygote_children(parser: JobsParser) -> list[int]:
    zygote = zygote_of(parser)
    return [int(child) for child in Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()]


def test_killed_children_are_replaced(bounded):
    parser, says = bounded
    says(HONEST)
    for victims in (zygote_children(parser), [zygote_of(parser)]):
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        assert parse(parser, "md").status_code in (200, 422)
        assert parse(parser, "html").status_code == 200


def test_a_client_that_leaves_ends_its_conversion(bounded):
    parser, says = bounded
    says(HOSTILE)
    job_id = parser.job(PAGE)
    parser.ended(job_id)
    before = set(zygote_children(parser))
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(f"{parser.url}{JOBS}/{job_id}/result?format=html", timeout=0.5, trust_env=False)
    wait_for(lambda: set(zygote_children(parser)) <= before)


def test_an_output_beyond_its_bound(bounded):
    parser, says = bounded
    says(" ".join(map(str, range(180_000))))
    refused = parse(parser, "md")
    assert refused.status_code == 413 and "PARSER_CHILD_OUTPUT_MIB" in refused.json()["errorMsg"]
    assert parse(parser, "json").status_code == 200, "what no child makes is there all the same"


def test_names_of_archives_mean_the_same_everywhere(bounded):
    parser, says = bounded
    says(HONEST)
    for name in (
        "..\\..\\CON.pdf",
        "C:evil.pdf",
        "a\u202egpj.exe.pdf",
        "x" * 300 + ".pdf",
        "nul .txt.pdf",
        "a. . .pdf",
    ):
        answer = parse(parser, "zip", name)
        for entry in zipfile.ZipFile(io.BytesIO(answer.content)).namelist():
            parts = entry.split("/")
            assert all(part == part.strip(". ") and len(part.encode()) < 240 for part in parts), entry
            assert not set(entry) & set('\\:*?"<>|\u202e') and parts[0].split(".")[0].upper() not in ("CON", "NUL"), (
                entry
            )
