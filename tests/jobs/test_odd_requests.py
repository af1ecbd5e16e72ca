# SPDX-License-Identifier: Apache-2.0
"""Requests that were a 500, broke a stream, or went into the pipeline: each gets a 4xx that names what is wrong."""

from __future__ import annotations

import contextlib
import re
import sqlite3

import httpx
import pytest

from tests.support.parser_process import JOBS
from tests.support.samples import blank_pages as pdf
from tests.support.wait import wait_for


@pytest.mark.parametrize(
    "body",
    [
        b'{"file": "QUJD", "logId": "\\ud800"}',
        b'{"file": "QUJD", "temperature": Infinity}',
        b'{"file": "QUJD", "unknown": [{"a": NaN}]}',
        b'{"file": "QUJD", "unknown": 1e999}',
        b'{"file": "QUJD", "markdownIgnoreLabels": ["\\udfff"]}',
        *(b'{"file": "QUJD", "%s": %s}' % pair for pair in (
            (b"temperature", b"1e308"), (b"repetitionPenalty", b"1e308"), (b"repetitionPenalty", b"1e-300"),
            (b"layoutUnclipRatio", b"1e308"), (b"layoutUnclipRatio", b"[1, 1e-300]"),
            (b"layoutUnclipRatio", b'{"text": 1e9}'), (b"minPixels", b"1e15"), (b"maxNewTokens", b"999999999"),
            (b"vlmExtraArgs", b'{"ocr_max_pixels": 1000000000000}'),
        )),
    ],
)  # fmt: skip
def test_layout_parsing(parser, body):
    answer = parser.client.post("/layout-parsing", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422 and answer.json()["errorCode"] == 422, answer.text
    assert "neither an image" not in answer.text, "refused for what is odd, before the document is looked at"


@pytest.mark.parametrize("path", ["/layout-parsing", "/restructure-pages", JOBS])
@pytest.mark.parametrize("depth", [65, 900, 100_000])
def test_nested_too_deeply(parser, path, depth):
    body = b'{"file": "QUJD", "pages": ' + b"[" * depth + b"]" * depth + b"}"
    answer = parser.client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400 and re.search("nested deeper|more than \\d+ values", answer.json()["errorMsg"]), (
        answer.text
    )


@pytest.mark.parametrize("value", [b"Infinity", b"NaN", b'"\\ud800"', b"1e999"])
def test_restructure_pages(parser, value):
    body = b'{"pages": [{"prunedResult": {"parsing_res_list": [], "width": %s}}]}' % value
    answer = parser.client.post("/restructure-pages", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422, answer.text


@pytest.mark.parametrize(
    "fields",
    [
        {"batchId": b'"\\ud800"'},
        {"pageRanges": b'"\\ud800"'},
        {"model": b'"\\ud800"'},
        {"optionalPayload": b'{"markdownIgnoreLabels": ["\\udc00"]}'},
        {"optionalPayload": b'{"temperature": NaN}'},
    ],
)
def test_a_job_by_json(parser, fields):
    known = {"model": b'"PaddleOCR-VL"', "fileUrl": b'"data:;base64,QUJD"'} | fields
    body = b"{" + b", ".join(b'"%s": %s' % (name.encode(), value) for name, value in known.items()) + b"}"
    answer = parser.client.post(JOBS, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert "neither an image" not in answer.text


@pytest.mark.parametrize("payload", ['{"temperature": Infinity}', "[" * 5000, '{"x": "\\ud800"}'])
def test_options_in_a_form(parser, payload):
    assert parser.submit(pdf(1), optionalPayload=payload).status_code == 400
    answer = parser.client.post("/parse", files={"file": ("a.pdf", pdf(1))}, data={"options": payload})
    assert answer.status_code == 422, answer.text


@pytest.mark.parametrize("name", ["batchId", "model", "filename"])
def test_a_form_whose_charset_would_make_halves_of_pairs(parser, name):
    parts = {"model": "PaddleOCR-VL", "batchId": "b"} | ({name: "\\ud800"} if name != "filename" else {})
    file = "\\ud800.pdf" if name == "filename" else "a.pdf"
    lines = [f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}' for key, value in parts.items()]
    lines.append(f'--x\r\nContent-Disposition: form-data; name="file"; filename="{file}"\r\n\r\n')
    body = "\r\n".join(lines).encode() + pdf(1) + b"\r\n--x--\r\n"
    kind = {"Content-Type": "multipart/form-data; boundary=x; charset=unicode_escape"}
    answer = parser.client.post(JOBS, content=body, headers=kind)
    assert answer.status_code == 400 and "charset is not UTF-8" in answer.json()["msg"], answer.text


@pytest.mark.parametrize("path", ["a%00b", "a" * 5000, "..%2f..%2fapp.py", "%2e%2e/%2e%2e/app.py", "vendor", "%ff"])
def test_files_of_the_page_that_are_not_there(parser, path):
    assert httpx.get(f"{parser.url}/ui/{path}", trust_env=False).status_code == 404


@pytest.mark.parametrize("last", ["9" * 30, "-2", "1_0", "0x1", "", "1e3"])
def test_events_after_what_is_no_event(parser, last):
    job_id = parser.job(pdf(1))
    answer = parser.client.get(f"{JOBS}/{job_id}/events", headers={"Last-Event-ID": last})
    assert answer.status_code == 400 and "Last-Event-ID" in answer.json()["msg"]


def test_a_path_cannot_forge_a_line_of_the_log(parser):
    forged = "2026-01-01 00:00:00,000 CRITICAL MainProcess docparser: all is lost"
    parser.client.get("/" + forged.join(("%0a", "%0d%1b[2J%E2%80%AE%C2%85")).replace(" ", "%20"))
    wait_for(lambda: "all is lost" in parser.log.read_text())
    lines = [line for line in parser.log.read_text().splitlines() if "all is lost" in line]
    assert len(lines) == 1 and "docparser.access: GET /\\u000a2026" in lines[0]
    assert "\\u001b[2J\\u202e\\u0085" in lines[0] and not lines[0].startswith("2026-01-01 00:00:00,000")


@pytest.mark.parametrize("path", ["/docs", "/docs/swagger-ui-bundle.js", "/openapi.json", "/", "/capacity", "/nothing"])
def test_no_answer_is_taken_for_another_type(parser, path):
    assert parser.client.get(path).headers["X-Content-Type-Options"] == "nosniff"


def test_the_api_page_has_a_policy(parser):
    policy = parser.client.get("/docs").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy


def test_a_job_with_options_that_are_no_longer_allowed_fails_and_says_why(start):
    """An earlier release kept it. The job waits for a VLM while its row is changed."""
    parser = start.parser().wait("/health")
    job_id = parser.job(pdf(2), optionalPayload='{"temperature": 0.5}')
    with contextlib.closing(sqlite3.connect(start.folder / "data/jobs.sqlite3", timeout=60)) as database, database:
        database.execute("UPDATE jobs SET options = ? WHERE id = ?", ('{"temperature": 1e300}', job_id))
    start.vlm()
    state = parser.ended(job_id)
    assert state["state"] == "failed" and "optionalPayload: temperature" in state["errorMsg"], state
