# SPDX-License-Identifier: Apache-2.0
"""A page's trace through the real chain, the VLM server included: local mode with OTEL_EXPORTER_OTLP_ENDPOINT."""

from __future__ import annotations

import base64
import json
import secrets
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.local import START_SECONDS, make_local
from tests.support.otlp_receiver import OtlpReceiver, SeenSpan, tree
from tests.support.paths import DATA

pytestmark = pytest.mark.long  # services of its own


def test_one_tree_from_the_client_to_vllm(tmp_path: Path):
    receiver = OtlpReceiver(tmp_path)
    local = make_local(tmp_path)
    local.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = receiver.url
    trace, span = secrets.token_hex(16), secrets.token_hex(8)
    try:
        first = local.call(str(DATA / "report.png"), timeout=START_SECONDS + 300)
        assert first.returncode == 0, first.stderr[-2000:]
        file = base64.b64encode((DATA / "letter.png").read_bytes()).decode()
        headers = {"Content-Type": "application/json", "traceparent": f"00-{trace}-{span}-01"}
        body = json.dumps({"file": file, "visualize": False}).encode()
        request = urllib.request.Request(f"{local.parser_url}/layout-parsing", body, headers)
        with urllib.request.urlopen(request, timeout=300) as answer:
            assert answer.status == 200 and answer.read()

        def complete(spans: list[SeenSpan]) -> bool:
            names = [span.name for span in spans]
            ended = {"POST /layout-parsing", "page", "worker"} <= {*names}
            return ended and names.count("llm_request") == names.count("vlm")

        spans = receiver.of(trace, complete)
    finally:
        local.call("--down")
        receiver.end()
    worker: dict[str, Any] = {"render": {}, "layout": {}, "block": {"vlm": {"llm_request": {}}}, "write": {}}
    assert tree(spans, span) == {"POST /layout-parsing": {"page": {"queue": {}, "worker": worker}}}
    assert {span.of["service.name"] for span in spans if span.name == "llm_request"} == {"paddleocr-vl-vlm"}
    assert {span.of["service.name"] for span in spans if span.name != "llm_request"} == {"paddleocr-vl"}
    told = next(span.attributes for span in spans if span.name == "llm_request")
    assert int(told["gen_ai.usage.completion_tokens"]) > 0, json.dumps(told)
    # The VLM server traces what belongs to a page, and no probe.
    assert {span.trace for span in receiver.spans() if span.name == "llm_request" and not span.parent} == set()
