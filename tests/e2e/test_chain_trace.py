# SPDX-License-Identifier: Apache-2.0
"""A page's trace through the real chain, the VLM server included: local mode with OTEL_EXPORTER_OTLP_ENDPOINT."""

from __future__ import annotations

import base64
import json
import secrets
import urllib.request
from typing import Any

from tests.support.local_mode import LocalMode
from tests.support.otlp_receiver import OtlpReceiver, SeenSpan, tree
from tests.support.paths import DATA


def complete(spans: list[SeenSpan]) -> bool:
    names = [span.name for span in spans]
    ended = {"POST /layout-parsing", "page", "worker"} <= {*names}
    return ended and names.count("llm_request") == names.count("vlm")


def test_one_tree_from_the_client_to_vllm(local: LocalMode, traces: OtlpReceiver):
    trace, span = secrets.token_hex(16), secrets.token_hex(8)
    file = base64.b64encode((DATA / "letter.png").read_bytes()).decode()
    headers = {"Content-Type": "application/json", "traceparent": f"00-{trace}-{span}-01"}
    body = json.dumps({"file": file, "visualize": False}).encode()
    request = urllib.request.Request(f"{local.parser_url}/layout-parsing", body, headers)
    with urllib.request.urlopen(request, timeout=300) as answer:
        assert answer.status == 200 and answer.read()
    spans = traces.of(trace, complete)
    worker: dict[str, Any] = {"render": {}, "layout": {}, "block": {"vlm": {"llm_request": {}}}, "write": {}}
    assert tree(spans, span) == {"POST /layout-parsing": {"page": {"queue": {}, "worker": worker}}}
    assert {span.of["service.name"] for span in spans if span.name == "llm_request"} == {"paddleocr-vl-vlm"}
    assert {span.of["service.name"] for span in spans if span.name != "llm_request"} == {"paddleocr-vl"}
    told = next(span.attributes for span in spans if span.name == "llm_request")
    assert int(told["gen_ai.usage.completion_tokens"]) > 0, json.dumps(told)
    # The VLM server traces what belongs to a page, and no probe.
    assert {span.trace for span in traces.spans() if span.name == "llm_request" and not span.parent} == set()
