# SPDX-License-Identifier: Apache-2.0
"""No list, mapping or text that a client sends is without a bound, and the worst body keeps nobody else waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import samples
from tests.support.parser_process import SIMULATED_WORK, ParserProcess, running_service

# The documents themselves: PARSER_MAX_BODY_MIB bounds them, they are not kept as text, and no answer repeats them.
DOCUMENTS = {
    "file",
    "fileUrl",
    "url",
    "file_data",
    "markdownImages",
    "document_url",
    "image_url",
    "base64_string",
    "files",
}
STALL_S = 0.5  # of /health, whatever another client sends


def unbounded(schema: Any, components: dict[str, Any], where: str, seen: tuple[str, ...] = ()) -> Iterator[str]:
    """Places in a JSON schema of what has no bound."""
    if reference := schema.get("$ref"):
        name = reference.rsplit("/", 1)[1]
        if name not in seen:
            yield from unbounded(components[name], components, name, (*seen, name))
        return
    for form in ("anyOf", "allOf", "oneOf"):
        for one in schema.get(form, ()):
            yield from unbounded(one, components, where, seen)
    kind, name = schema.get("type"), where.rsplit(".", 1)[-1]
    if kind == "array":
        if "maxItems" not in schema:
            yield f"{where}: maxItems"
        for place, entry in enumerate([schema.get("items", {}), *schema.get("prefixItems", ())]):
            yield from unbounded(entry, components, f"{where}.{place}", seen)
    elif kind == "string" and not {"maxLength", "enum", "const"} & set(schema) and name not in DOCUMENTS:
        yield f"{where}: maxLength"
    elif kind == "object" and "properties" not in schema:
        if "maxProperties" not in schema:
            yield f"{where}: maxProperties"
        if isinstance(schema.get("additionalProperties"), dict):
            yield from unbounded(schema["additionalProperties"], components, where, seen)
    for member, value in schema.get("properties", {}).items():
        yield from unbounded(value, components, f"{where}.{member}", seen)


def test_every_part_of_every_body_has_a_bound(service):
    api = service.client.get("/openapi.json").json()
    bodies = {
        f"{path} {kind}": content["schema"]
        for path, operations in api["paths"].items()
        for operation in operations.values()
        for kind, content in operation.get("requestBody", {}).get("content", {}).items()
    }
    assert {place.split()[0] for place in bodies} == {
        "/layout-parsing",
        "/restructure-pages",
        "/parse",
        "/v1/chat/completions",
        "/api/v2/ocr/jobs",
        "/v1/ocr",
        "/v1/files",
        "/v1/convert/source",
        "/v1/convert/source/async",
        "/v1/convert/file",
        "/v1/convert/file/async",
    }
    found = [
        what for place, schema in bodies.items() for what in unbounded(schema, api["components"]["schemas"], place)
    ]
    assert not found


def test_the_walk_sees_what_has_no_bound():
    components = {"A": {"type": "object", "properties": {"b": {"type": "array", "items": {"type": "string"}}}}}
    found = list(unbounded({"anyOf": [{"$ref": "#/A"}, {"type": "object"}]}, components, "x"))
    assert found == ["A.b: maxItems", "A.b.0: maxLength", "x: maxProperties"]


def json_body(before: str, piece: str, after: str, size: int) -> dict[str, Any]:
    text = before + piece * ((size - len(before) - len(after)) // len(piece) - 1) + piece.rstrip(",") + after
    return {"content": text.encode(), "headers": {"Content-Type": "application/json"}}


def form_body(fields: dict[str, str]) -> dict[str, Any]:
    return {"data": fields, "files": {"file": ("a.png", b"\x89PNG\r\n\x1a\n")}}


PARTS = '{"role":"user","content":[{"type":"text"}]},'
WORST = [
    ("/layout-parsing", '{"file":"x","outputFormats":[', "1,", "]}"),
    ("/layout-parsing", '{"file":"x","layoutThreshold":{', '"1":1,', "}}"),
    ("/layout-parsing", '{"file":"x","y":[', "{},", "]}"),
    ("/restructure-pages", '{"pages":[', "1,", "]}"),
    ("/restructure-pages", '{"pages":[', "{},", "]}"),
    ("/restructure-pages", '{"pages":[', '{"prunedResult":{}},', "]}"),
    ("/v1/chat/completions", '{"model":"PaddleOCR-VL","messages":[', "1,", "]}"),
    ("/v1/chat/completions", '{"model":"PaddleOCR-VL","messages":[', PARTS, "]}"),
    ("/v1/chat/completions", '{"model":"PaddleOCR-VL","x":[', '"",', "]}"),
    ("/v1/ocr", '{"document":{"type":"document_url","document_url":"x"},"pages":[', "1,", "]}"),
    ("/v1/convert/source", '{"sources":[', "{},", "]}"),
    ("/api/v2/ocr/jobs", '{"model":"PaddleOCR-VL","fileUrl":"x","optionalPayload":{"outputFormats":[', "1,", "]}}"),
]


class Watch(threading.Thread):
    """Asks for /health all the time; ``slowest`` is the longest that it took."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.slowest, self._url, self._over = 0.0, url, threading.Event()

    def run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=60, trust_env=False) as client:
            while not self._over.wait(0.02):
                began = time.monotonic()
                assert client.get("/health").status_code == 200
                self.slowest = max(self.slowest, time.monotonic() - began)

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()


def send_watched(service: ParserProcess, path: str, **body: Any) -> tuple[httpx.Response, int]:
    """The answer, while /health never took STALL_S, and the most that one try made the service's memory grow, in bytes.
    What else runs on a machine delays a try, the body delays each."""
    slowest, grown = [], 0
    for _ in range(4):
        peak = reset_peak(service.process.pid)
        with Watch(service.url) as watch:
            answer = service.client.post(path, **body)
        grown = max(grown, peak())
        assert 400 <= answer.status_code < 500, answer.text[:500]
        if watch.slowest < STALL_S:
            return answer, grown
        slowest.append(watch.slowest)
    raise AssertionError(f"/health took at least {min(slowest):.2f} s")


@pytest.mark.parametrize("mib", [1, 15])
@pytest.mark.parametrize(("path", "before", "piece", "after"), WORST)
def test_the_worst_body_keeps_nobody_waiting(large_bodies, path, before, piece, after, mib):
    _, grown = send_watched(large_bodies, path, **json_body(before, piece, after, mib << 20))
    assert grown < 10 * (mib << 20), f"{grown >> 20} MiB for a body of {mib}"


@pytest.mark.parametrize(
    ("path", "field", "others"),
    [("/parse", "options", {}), ("/api/v2/ocr/jobs", "optionalPayload", {"model": "PaddleOCR-VL"})],
)
def test_the_worst_field_of_a_form_keeps_nobody_waiting(large_bodies, path, field, others):
    text = '{"outputFormats":[' + "1," * 520_000 + "1]}"
    answer, _ = send_watched(large_bodies, path, **form_body({**others, field: text}))
    assert "values" in answer.text


def test_json_beside_its_document_has_a_bound(large_bodies):
    """Blanks take no memory as values, so nothing else counts them; 165 MB of them held the interpreter for 5 s."""
    answer, _ = send_watched(large_bodies, "/layout-parsing", **json_body('{"file":', " ", '"x"}', 33 << 20))
    assert answer.status_code == 413 and "beside its document; at most 32" in answer.text


def test_a_document_of_ordinary_options_is_read(service):
    """The bounds are beyond what clients send."""
    every = {str(number): 0.5 for number in range(25)}
    options = {"layoutThreshold": every, "layoutUnclipRatio": {name: [1, 1] for name in every}, "logId": "x" * 100}
    answer = service.parse(samples.image(), visualize=False, other=list(range(5000)), **options)
    assert answer.status_code == 200, answer.text[:500]


def reset_peak(pid: int):
    """Returns what tells how far the process's memory has grown since now, in bytes (proc(5), clear_refs and VmHWM)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")

    def value(name: str) -> int:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))

    before = value("VmRSS")
    return lambda: value("VmHWM") - before


@pytest.fixture(scope="module")
def large_bodies(tmp_path_factory, layout_model, _page_vlm):
    """Nearly all that is sent to it is refused before a worker gets it, so page work is simulated."""
    settings = {"LAYOUT_MODEL_DIR": str(layout_model), "VLM_URL": _page_vlm.url}
    with running_service(tmp_path_factory.mktemp("large"), SIMULATED_WORK, **settings) as running:
        yield running
