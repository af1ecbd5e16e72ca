# SPDX-License-Identifier: Apache-2.0
"""Every operation answers as `/openapi.json` says, with success and with errors; examples are true."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.conftest import KEY
from tests.api.described import JSON, Described
from tests.support.paths import ROOT

PAGE, BOOK = ROOT / "tests/data/letter.png", ROOT / "tests/data/handbook.pdf"
JOBS = "/api/v2/ocr/jobs"
FORMATS = ("md", "json", "html", "xlsx", "docx", "pdf", "chunks", "zip")


@pytest.fixture(scope="module")
def client(parser_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=parser_url, timeout=120, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
def described(client: httpx.Client) -> Described:
    return Described(client.get("/openapi.json").json())


def file(path: Path) -> dict[str, Any]:
    return {"file": (path.name, path.read_bytes())}


def files(path: Path) -> dict[str, Any]:
    return {"files": (path.name, path.read_bytes())}


def test_every_operation_answers_as_described(client: httpx.Client, guarded_url: str, described: Described):
    check = described.check
    bodies = {
        name: operation["requestBody"]["content"][JSON]["example"]
        for name, operation in described.operations.items()
        if JSON in operation.get("requestBody", {}).get("content", {})
    }
    assert set(bodies) == {
        "parseDocument",
        "restructurePages",
        "completeChat",
        "ocr",
        "submitJob",
        "convertSource",
        "convertSourceAsync",
    }
    paths = {
        operation["operationId"]: path
        for path, item in described.description["paths"].items()
        for operation in item.values()
    }
    for name, body in bodies.items():  # the examples work
        check(name, client.post(paths[name], json=body)).raise_for_status()

    whole = {"restructurePages": True, "outputFormats": ["docx"], "visualize": True, "foo": 1}
    form = {"options": json.dumps(whole)}
    parsed = check("parseFile", client.post("/parse", files=file(BOOK), data=form, params={"format": "json"})).json()[
        "result"
    ]
    assert parsed["docparser"]["notes"] == ["foo: no such option here, it has no effect."]
    pages = [{"prunedResult": page["prunedResult"]} for page in parsed["layoutParsingResults"]]
    sent_back = {"pages": pages, "concatenatePages": True, "foo": 1}
    joined = check("restructurePages", client.post("/restructure-pages", json=sent_back)).json()["result"]
    assert joined["docparser"]["notes"] == parsed["docparser"]["notes"]
    for format in FORMATS:
        check("parseFile", client.post("/parse", files=file(PAGE), params={"format": format})).raise_for_status()
    check(
        "completeChat",
        client.post(
            "/v1/chat/completions",
            json=bodies["completeChat"] | {"stream": True, "stream_options": {"include_usage": True}},
        ),
    )
    uploaded = check("uploadFile", client.post("/v1/files", files=file(BOOK))).json()["id"]
    check("getFile", client.get(f"/v1/files/{uploaded}"))
    check("getFileUrl", client.get(f"/v1/files/{uploaded}/url"))
    asked = {"document": {"type": "file", "file_id": uploaded}, "include_blocks": True, "extract_header": True}
    check("ocr", client.post("/v1/ocr", json=asked | {"extract_footer": True})).raise_for_status()
    check("deleteFile", client.delete(f"/v1/files/{uploaded}"))
    wanted_formats: Any = {"to_formats": ["md", "json", "html", "text"], "image_export_mode": "embedded"}
    check("convertFile", client.post("/v1/convert/file", files=files(BOOK), data=wanted_formats)).raise_for_status()
    task = check(
        "convertFileAsync", client.post("/v1/convert/file/async", files=files(BOOK), data=wanted_formats)
    ).json()["task_id"]
    assert check("pollTask", client.get(f"/v1/status/poll/{task}?wait=60")).json()["task_status"] == "success"
    check("getTaskResult", client.get(f"/v1/result/{task}")).raise_for_status()
    model = check("listModels", client.get("/v1/models")).json()["data"][0]["id"]
    check("getModel", client.get(f"/v1/models/{model}"))

    form = {"model": "PaddleOCR-VL", "batchId": "tuesday", "optionalPayload": json.dumps({"useChartRecogniton": True})}
    submitted = check("submitJob", client.post(JOBS, data=form, files=file(BOOK))).json()["data"]
    assert submitted["docparser"]["notes"] == [
        "useChartRecogniton: no such option here, it has no effect (did you mean useChartRecognition?)."
    ]
    job = submitted["jobId"]
    check("getJob", client.get(f"{JOBS}/{job}"))
    check("followJob", client.get(f"{JOBS}/{job}/events"))  # until it has ended
    state = check("getJob", client.get(f"{JOBS}/{job}")).json()["data"]
    assert state["state"] == "done"
    check("getBatch", client.get(f"{JOBS}/batch/tuesday"))
    for format in FORMATS:
        check("getJobResult", client.get(f"{JOBS}/{job}/result", params={"format": format})).raise_for_status()
    page = check("getJobPage", client.get(f"{JOBS}/{job}/pages/1")).json()["result"]["layoutParsingResults"][0]
    lines = check("getJobLines", client.get(state["resultUrl"]["jsonUrl"]))
    assert len(lines.text.splitlines()) == 3
    check("getJobPicture", client.get(page["inputImage"])).raise_for_status()
    check("getJobOriginal", client.get(f"{JOBS}/{job}/originals/3"))
    check("retryJob", client.post(f"{JOBS}/{job}/retry"))
    check("cancelJob", client.delete(f"{JOBS}/{job}", params={"purge": True}))

    with httpx.Client(base_url=guarded_url, headers={"X-Api-Key": KEY}, trust_env=False) as keyed:
        keyed.post(JOBS, data={"model": "PaddleOCR-VL"}, files=file(PAGE)).raise_for_status()
        assert check("listJobs", keyed.get(JOBS)).json()["data"]["jobs"]
        check("getUsage", keyed.get("/usage"))
    for name in ("getCapacity", "getHealth", "getReadiness", "getMetrics", "getUsage", "getCapabilities"):
        check(name, client.get(paths[name]))
    good = {name for name, status, _ in described.seen if status == 200}
    assert good == set(described.operations), "a new operation has a request here"
    wanted = {
        (name, 200, kind)
        for name in good - {"getJobPicture"}
        for kind in described.operations[name]["responses"]["200"]["content"]
    }
    assert wanted <= described.seen, "every media type was sent"


@pytest.mark.parametrize(
    ("operation", "status", "method", "path", "more"),
    [
        ("parseDocument", 422, "POST", "/layout-parsing", {"json": {"file": "!!"}}),
        (
            "parseDocument",
            400,
            "POST",
            "/layout-parsing",
            {"content": b"[" * 99 + b"]" * 99, "headers": {"Content-Type": JSON}},
        ),
        ("parseDocument", 403, "POST", "/layout-parsing", {"headers": {"Origin": "https://evil.example"}}),
        ("parseDocument", 421, "POST", "/layout-parsing", {"headers": {"Host": "evil.example"}}),
        ("parseFile", 422, "POST", "/parse", {"params": {"format": "odt"}}),
        ("parseFile", 413, "POST", "/parse", {"content": b"0" * (9 << 20)}),
        ("restructurePages", 422, "POST", "/restructure-pages", {"json": {"pages": []}}),
        ("completeChat", 400, "POST", "/v1/chat/completions", {"json": {"model": "PaddleOCR-VL", "messages": []}}),
        ("completeChat", 404, "POST", "/v1/chat/completions", {"json": {"model": "x", "messages": [{"role": "user"}]}}),
        ("getModel", 404, "GET", "/v1/models/x", {}),
        ("ocr", 400, "POST", "/v1/ocr", {"json": {"document": {"type": "x"}}}),
        ("ocr", 404, "POST", "/v1/ocr", {"json": {"document": {"type": "file", "file_id": "x"}}}),
        ("convertSource", 422, "POST", "/v1/convert/source", {"json": {"sources": []}}),
        ("convertFile", 422, "POST", "/v1/convert/file", {"data": {"to_formats": "md"}}),
        ("convertFileAsync", 422, "POST", "/v1/convert/file/async", {"files": {"files": ("a.png", b"a")}}),
        ("pollTask", 404, "GET", "/v1/status/poll/x", {}),
        ("getTaskResult", 404, "GET", f"/v1/result/{'0' * 32}-md", {}),
        ("uploadFile", 400, "POST", "/v1/files", {"data": {"purpose": "batch"}}),
        ("deleteFile", 404, "DELETE", "/v1/files/x", {}),
        ("submitJob", 400, "POST", JOBS, {"data": {"model": "x"}}),
        ("submitJob", 413, "POST", JOBS, {"content": b"0" * (9 << 20)}),
        ("getJob", 404, "GET", f"{JOBS}/x", {}),
        ("followJob", 400, "GET", f"{JOBS}/x/events", {"headers": {"Last-Event-ID": "x"}}),
        ("getJobPage", 400, "GET", f"{JOBS}/x/pages/x", {}),
        ("getJobLines", 403, "GET", "/api/v2/ocr/results/x/0-x/result.jsonl", {}),
        ("listJobs", 403, "GET", JOBS, {}),
        ("listJobs", 400, "GET", JOBS, {"params": {"limit": "x"}}),
        ("getBatch", 404, "GET", f"{JOBS}/batch/nothing", {}),
        ("getCapacity", 421, "GET", "/capacity", {"headers": {"Host": "evil.example"}}),
    ],
)
def test_errors_are_as_described(
    client: httpx.Client, described: Described, operation: str, status: int, method: str, path: str, more: Any
):
    answer = described.check(operation, client.request(method, path, **more))
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize(
    ("operation", "method", "path"),
    [("parseFile", "POST", "/parse"), ("getJob", "GET", f"{JOBS}/x"), ("listModels", "GET", "/v1/models")],
)
def test_a_wrong_key_is_as_described(guarded_url: str, described: Described, operation: str, method: str, path: str):
    answer = httpx.request(method, guarded_url + path, headers={"X-Api-Key": f"not {KEY}"}, trust_env=False)
    assert described.check(operation, answer).status_code == 401
    assert "WWW-Authenticate" in described.operations[operation]["responses"]["401"]["headers"]


def test_examples_have_their_schemas(described: Described):
    held = 0
    for operation in described.operations.values():
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for media in (media for body in bodies for media in body.get("content", {}).values() if "example" in media):
            described.check_schema(media["schema"], media["example"])
            held += 1
    for schema in described.description["components"]["schemas"].values():
        for example in schema.get("examples", ()):
            described.check_schema(schema, example)
            held += 1
    assert held >= 10
