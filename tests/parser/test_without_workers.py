# SPDX-License-Identifier: Apache-2.0
"""What the app answers by itself, in this process, without a worker: on fields, parameters and bodies that mean nothing
here, on addresses, on HEAD."""

from __future__ import annotations

import asyncio
import base64
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request

from docparser.app import create_app
from docparser.contract.docling import FORMATS, DoclingOptions
from docparser.contract.request_parts import file_name_of
from docparser.errors import RequestTimeout
from docparser.http.errors import on_parser_error
from docparser.settings import Settings
from tests.support.samples import blank_pages

JOBS = "/api/v2/ocr/jobs"
PDF = blank_pages(1)
Ask = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    return create_app(Settings(data_dir=tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="module")
def ask(app: FastAPI) -> Ask:
    return asking(app)


def asking(app: FastAPI) -> Ask:
    """Sends a request to the app."""
    transport = httpx.ASGITransport(app)

    def ask(method: str, path: str, **what: Any) -> httpx.Response:
        async def run() -> httpx.Response:
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
                return await client.request(method, path, **what)

        return asyncio.run(run())

    return ask


def submitted(ask: Ask, fields: dict[str, str], path: str = JOBS) -> dict[str, Any]:
    answer = ask("POST", path, data={"model": "PaddleOCR-VL"} | fields, files={"file": ("a.pdf", PDF)})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


@pytest.mark.parametrize(
    ("fields", "notes"),
    [
        ({"pageRanges": "1", "batchId": "b", "priority": "bulk", "callbackUrl": ""}, []),
        ({"options": "{}"}, ["options: has no effect here; send it as optionalPayload."]),
        ({"page_ranges": "1"}, ["page_ranges: no such field here, it has no effect (did you mean pageRanges?)."]),
        (
            {"useChartRecognition": "true"},
            ["useChartRecognition: has no effect here; it is an option, and belongs into optionalPayload."],
        ),
    ],
)
def test_fields_of_a_job_without_effect_are_named(ask: Ask, fields: dict[str, str], notes: list[str]):
    assert submitted(ask, fields)["docparser"]["notes"] == notes
    url = "data:application/pdf;base64," + base64.b64encode(PDF).decode()
    answer = ask("POST", JOBS, json={"model": "PaddleOCR-VL", "fileUrl": url, "unset": None} | fields)
    assert answer.json()["data"]["docparser"]["notes"] == notes


def test_parameters_of_a_submission_have_no_effect_and_are_named(ask: Ask):
    (note,) = submitted(ask, {}, JOBS + "?priority=bulk")["docparser"]["notes"]
    assert note == "priority: has no effect in the address; send it in the body."


@pytest.mark.parametrize(
    ("query", "fields", "words"),
    [
        ("", {"format": "zip"}, "format: no such field here; it belongs into the address: /parse?format=..."),
        ("", {"topP": "1"}, 'topP: no such field here; it is an option, and belongs into options: options={"topP": '),
        ("?topP=1", {}, "query: topP: no parameter but an option; send it in the body that asks for parsing"),
        ("", {"zip": "1"}, "zip: no such field here; expected file, options"),
        ("", {"option": "{}"}, "option: no such field here (did you mean options?); expected file, options"),
        ("?chunktokens=64", {}, "query: chunktokens: no such parameter here (did you mean chunkTokens?); expected "),
        ("?Format=zip", {}, "query: Format: no such parameter here (did you mean format?); expected format, "),
    ],
)
def test_parse_refuses_what_it_does_not_know(ask: Ask, query: str, fields: dict[str, str], words: str):
    answer = ask("POST", f"/parse{query}", data=fields, files={"file": ("a.pdf", PDF)})
    assert answer.status_code == 422 and answer.json()["errorMsg"].startswith(words)


@pytest.mark.parametrize(
    ("method", "path", "meant"),
    [
        ("GET", "/result?formats=zip", "format"),
        ("DELETE", "?Purge=true", "purge"),
    ],
)
def test_parameters_of_a_job_are_refused_that_are_not_known(ask: Ask, method: str, path: str, meant: str):
    job = f"{JOBS}/{submitted(ask, {})['jobId']}"
    answer = ask(method, job + path)
    assert answer.status_code == 400 and f"(did you mean {meant}?)" in answer.json()["msg"]
    assert ask("GET", job).json()["data"]["state"] == "pending"


JSON_PATHS = ["/layout-parsing", "/restructure-pages", "/v1/chat/completions", "/v1/ocr", "/v1/convert/source"]


@pytest.mark.parametrize("path", JSON_PATHS)
def test_json_must_say_that_it_is_json(ask: Ask, path: str):
    for headers, shown in (
        ({"Content-Type": "application/x-www-form-urlencoded"}, "Content-Type is 'application/x-www-form-urlencoded'"),
        ({}, "there is no Content-Type"),
    ):
        answer = ask("POST", path, content=b'{"file": "QUJD"}', headers=headers)
        words = f"body: expected JSON, but {shown}; send Content-Type: application/json"
        assert answer.status_code in (400, 422) and answer.json()["errorMsg"] == words
    assert ask("POST", path).json()["errorMsg"] == "body: Field required"


@pytest.mark.parametrize("path", [*JSON_PATHS, JOBS, "/parse"])
@pytest.mark.parametrize("coding", ["gzip", "identity, BR"])
def test_a_compressed_body_is_refused_as_such(ask: Ask, path: str, coding: str):
    answer = ask("POST", path, content=b"\x1f\x8b", headers={"Content-Encoding": coding})
    shown = coding.rpartition(" ")[2].lower()
    assert answer.status_code == 415 and answer.headers["accept-encoding"] == "identity"
    assert answer.json()["errorMsg"] == f"Content-Encoding: '{shown}' is not read here; send the body as it is."
    said = ask("POST", path, content=b"{", headers={"Content-Encoding": "utf-8", "Content-Type": "application/json"})
    assert said.status_code != 415, "what is no coding has no effect"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("OPTIONS", "/parse", "POST"),
        ("OPTIONS", JOBS, "GET, POST"),
        ("PUT", f"{JOBS}/a", "GET, DELETE"),
        ("PUT", "/health", "GET, HEAD"),
    ],
)
def test_a_refused_method_names_those_of_all_routes_of_the_address(ask: Ask, method: str, path: str, allowed: str):
    answer = ask(method, path)
    assert answer.status_code == 405 and answer.headers["allow"] == allowed
    assert answer.json()["errorMsg"] == f"{method} is not allowed on {path}; allowed: {allowed}."


@pytest.mark.parametrize("path", ["/parse/", "/layout-parsing/", f"{JOBS}/", "/docs/", "/v1/models/"])
def test_no_address_leads_elsewhere(ask: Ask, path: str):
    """A redirect would name the scheme and path behind a proxy, not before it."""
    answer = ask("POST", path)
    assert answer.status_code in (404, 405) and path in answer.json()["errorMsg"]


def test_a_model_whose_name_has_a_slash_is_found(tmp_path: Path):
    app = create_app(Settings(data_dir=tmp_path, vlm_model_name="site/model"))
    assert asking(app)("GET", "/v1/models/site/model").status_code == 200


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://host/a/b%20c.pdf?x=/1#/2", "b c.pdf"),
        ("https://host/a%2Fb.pdf", "a/b.pdf"),
        ("https://host", ""),
        ("https://host/a/", ""),
        ("data:application/pdf;base64,QUJD/hAC2mzj", ""),
        ("QUJD/hAC2mzjAAAAAElFTkSuQmCC", ""),
    ],
)
def test_only_an_address_names_a_file(address: str, name: str):
    assert file_name_of(address) == name


def test_base64_is_no_name_of_a_file(ask: Ask):
    """It would show content in the job's state, in a batch and on the web page."""
    content = base64.b64encode(PDF).decode()
    answer = ask("POST", JOBS, json={"model": "PaddleOCR-VL", "fileUrl": content[:-4] + "/" + content[-3:]})
    job = ask("GET", f"{JOBS}/{answer.json()['data']['jobId']}").json()["data"]
    assert job["fileName"] == "document"


@pytest.mark.parametrize("batch", ["monday", "customer/2026-11", "a/events", "100 %"])
def test_a_batch_is_asked_for_by_whatever_name_it_has(ask: Ask, batch: str):
    job_id = submitted(ask, {"batchId": batch})["jobId"]
    for path in {urllib.parse.quote(batch), urllib.parse.quote(batch, safe="")}:
        found = ask("GET", f"{JOBS}/batch/{path}").json()["data"]
        assert found["batchId"] == batch and found["extractResult"][0]["jobId"] == job_id


@pytest.mark.parametrize(
    "path", ["/", "/ui/app.css", "/docs", "/docs/swagger-ui.css", "/openapi.json", "/health", "result"]
)
def test_head_is_answered_where_get_is(app: FastAPI, ask: Ask, path: str):
    if path == "result":
        path = app.state.jobs.links.path(submitted(ask, {})["jobId"], "result.jsonl")
    got, head = ask("GET", path), ask("HEAD", path)
    assert got.status_code == head.status_code == 200
    own = ("date", "x-request-id")
    assert {k: v for k, v in got.headers.items() if k not in own} == {
        k: v for k, v in head.headers.items() if k not in own
    }


def test_a_form_for_docling_is_described_by_what_is_read_of_it(app: FastAPI):
    description = app.openapi()
    for path in ("/v1/convert/file", "/v1/convert/file/async"):
        content = description["paths"][path]["post"]["requestBody"]["content"]
        parts = content["multipart/form-data"]["schema"]["properties"]
        assert parts.keys() == DoclingOptions.model_fields.keys() | {"files", "target_type"}
        assert "null" not in str(parts) and parts["to_formats"]["items"]["enum"] == list(FORMATS)
        assert parts["page_range"]["maxItems"] == 2 and parts["do_chart_extraction"]["type"] == "boolean"


@pytest.mark.parametrize("path", ["source", "source/async", "file", "file/async"])
def test_a_refusal_of_docling_names_a_field_of_the_request(ask: Ask, path: str):
    source = {"kind": "file", "filename": "a.docx", "base64_string": base64.b64encode(b"no picture").decode()}
    what: dict[str, Any] = {"files": {"files": ("a.docx", b"no picture")}}
    if path.startswith("source"):
        what = {"json": {"sources": [source]}}
    field = "sources.0.base64_string" if path.startswith("source") else "files"
    assert ask("POST", f"/v1/convert/{path}", **what).json()["errorMsg"].startswith(f"{field}: ")


@pytest.mark.parametrize(("path", "told"), [("/v1/chat/completions", "false"), ("/parse", None), ("/v1/ocr", None)])
def test_what_took_too_long_is_not_to_be_sent_again(app: FastAPI, path: str, told: str | None):
    """The packages of OpenAI send a request again after 504, twice, unless this header keeps them from it."""
    request = Request({"type": "http", "path": path, "headers": [], "query_string": b"", "server": ("a", 80)})
    answer = asyncio.run(on_parser_error(request, RequestTimeout("too long")))
    assert answer.status_code == 504 and answer.headers.get("x-should-retry") == told
    described = app.openapi()["paths"][path]["post"]["responses"]["504"]["headers"]
    assert ("X-Should-Retry" in described) == (told is not None)
