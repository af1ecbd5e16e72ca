# SPDX-License-Identifier: Apache-2.0
"""Traces: one tree a page, from the client's own span to the VLM server's, over the parser's processes; and nothing of
it where nobody asked for traces. tests/e2e has a page with the real VLM server."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docparser.settings import Settings
from tests.support import samples
from tests.support.otlp_receiver import OtlpReceiver, SeenSpan, tree
from tests.support.parser_process import JOBS, ParserProcess, running_service
from tests.support.simulated_vlm import SimulatedVlm
from tests.support.telltale import OPENTELEMETRY, telltale
from tests.support.wait import wait_for

WORKER: dict[str, Any] = {"render": {}, "layout": {}, "block": {"vlm": {}}, "write": {}}
PAGE: dict[str, Any] = {"page": {"queue": {}, "worker": WORKER}}
SECRET = "k3y-of-the-collector"


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtlpReceiver]:
    running = OtlpReceiver(tmp_path_factory.mktemp("collector"))
    yield running
    running.end()


@pytest.fixture(scope="module")
def traced(
    tmp_path_factory: pytest.TempPathFactory, layout_model: Path, _vlm: SimulatedVlm, receiver: OtlpReceiver
) -> Iterator[ParserProcess]:
    settings = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{SECRET}",
        "OTEL_SERVICE_NAME": "ours",
    }
    folder = tmp_path_factory.mktemp("traced")
    with running_service(folder, LAYOUT_MODEL_DIR=str(layout_model), VLM_URL=_vlm.url, **settings) as running:
        yield running


class Client:
    """A span of the client's, which its requests name."""

    def __init__(self, flags: str = "01") -> None:
        self.trace, self.span = secrets.token_hex(16), secrets.token_hex(8)
        self.headers = {"traceparent": f"00-{self.trace}-{self.span}-{flags}", "tracestate": "client=1"}


def one(spans: list[SeenSpan], name: str) -> SeenSpan:
    (found,) = (span for span in spans if span.name == name)
    return found


def with_pages(route: str, pages: int = 0) -> Callable[[list[SeenSpan]], bool]:
    """Whether both processes have sent all: in each, the outermost span ends last."""

    def complete(spans: list[SeenSpan]) -> bool:
        seen = Counter(span.name for span in spans)
        return bool(seen[route]) and seen["page"] == seen["worker"] == pages

    return complete


def test_a_page_is_one_tree(traced: ParserProcess, vlm: SimulatedVlm, receiver: OtlpReceiver):
    client = Client()
    body = {"file": samples.image(), "visualize": False}
    answer = traced.client.post("/layout-parsing", json=body, headers={**client.headers, "X-Request-Id": "mine"})
    assert answer.status_code == 200, answer.text
    spans = receiver.of(client.trace, with_pages("POST /layout-parsing", 1))
    assert tree(spans, client.span) == {"POST /layout-parsing": PAGE}
    request, page, worker = (one(spans, name) for name in ("POST /layout-parsing", "page", "worker"))
    assert request.kind == "server" and request.attributes["http.response.status_code"] == 200
    assert request.attributes["request_id"] == page.attributes["request_id"] == "mine" and page.attributes["page"] == 1
    assert request.of["service.name"] == worker.of["service.name"] == "ours"
    assert not any(span.error for span in spans)
    # What is inside lies inside, on one clock.
    for span in spans:
        if (above := next((other for other in spans if other.id == span.parent), None)) is not None:
            assert above.began <= span.began <= span.ended <= above.ended, (span.name, above.name)
    assert {span.headers["authorization"] for span in spans} == {f"Bearer {SECRET}"}
    # The VLM server is told the span that called it, and the client's state.
    calls = {span.id: span for span in spans if span.name == "vlm"}
    assert len(calls) == len(vlm.traceparents) == 7
    assert {f"00-{client.trace}-{call}-01" for call in calls} == set(vlm.traceparents)
    assert {call.kind for call in calls.values()} == {"client"}
    assert {call.attributes["server.address"] for call in calls.values()} == {f"127.0.0.1:{vlm.port}"}


def test_each_page_has_its_spans_and_none_has_a_text(traced: ParserProcess, vlm: SimulatedVlm, receiver: OtlpReceiver):
    client = Client()
    vlm.answer = lambda request, number: "planted words"
    files = {"file": ("planted-name.pdf", samples.pdf_bytes((300, 400), (300, 400)))}
    assert traced.client.post("/parse", files=files, headers=client.headers).status_code == 200
    spans = receiver.of(client.trace, with_pages("POST /parse", 2))
    assert {span.attributes["page"] for span in spans if span.name == "page"} == {1, 2}
    assert tree(spans, client.span) == {"POST /parse": PAGE}
    assert "planted" not in str(spans)


def test_a_failure_shows_and_says_no_more_than_its_kind(
    traced: ParserProcess, vlm: SimulatedVlm, receiver: OtlpReceiver
):
    client = Client()
    vlm.answer = lambda request, number: (500, "planted words") if number % 2 else "text"
    answer = traced.client.post("/layout-parsing", json={"file": "AAAA"}, headers=client.headers)
    assert answer.status_code == 422
    refused = one(receiver.of(client.trace, with_pages("POST /layout-parsing")), "POST /layout-parsing")
    assert refused.attributes["http.response.status_code"] == 422
    again = Client()
    traced.client.post("/layout-parsing", json={"file": samples.image()}, headers=again.headers)
    spans = receiver.of(again.trace, with_pages("POST /layout-parsing", 1))
    errors = {span.name: span.error for span in spans if span.error}
    assert errors["vlm"] == "CallFailed" and "planted" not in str(spans)


def test_a_job_hangs_below_the_request_that_submitted_it(
    traced: ParserProcess, vlm: SimulatedVlm, receiver: OtlpReceiver
):
    client = Client()
    job = traced.submit(samples.pdf_bytes((300, 400)), headers=client.headers).json()["data"]["jobId"]
    assert traced.ended(job)["state"] == "done"
    spans = receiver.of(client.trace, with_pages(f"POST {JOBS}", 1))
    assert tree(spans, client.span) == {f"POST {JOBS}": {"job queue": {}, **PAGE}}
    assert one(spans, "page").attributes["request_id"] == f"job-{job}"
    waited, begun = one(spans, "job queue"), one(spans, "page")
    assert waited.began < waited.ended <= begun.began
    metrics = traced.metrics()
    assert metrics['docparser_page_wait_seconds_count{priority="interactive"}'] >= 1
    assert metrics['docparser_page_wait_seconds_sum{priority="interactive"}'] > 0


def test_a_client_that_wants_no_trace_gets_none_and_nonsense_begins_a_tree(
    traced: ParserProcess, vlm: SimulatedVlm, receiver: OtlpReceiver
):
    quiet = Client("00")
    assert traced.client.get("/v1/models", headers=quiet.headers).status_code == 200
    for wrong in ("", "00-x-y-01", "z" * 4000, "00-" + "0" * 32 + "-" + "0" * 16 + "-01"):
        headers = {"traceparent": wrong, "X-Request-Id": f"wrong-{len(wrong)}"}
        assert traced.client.get("/v1/models", headers=headers).status_code == 200

    def seen() -> list[SeenSpan]:
        return [span for span in receiver.spans() if str(span.attributes.get("request_id")).startswith("wrong-")]

    wait_for(lambda: len(seen()) == 4)
    assert {span.parent for span in seen()} == {""} and len({span.trace for span in seen()}) == 4
    assert not [span for span in receiver.spans() if span.trace == quiet.trace]
    assert not [span for span in receiver.spans() if "/health" in span.name], "probes make no trees"


def test_without_a_collector_nothing_of_opentelemetry_is_loaded(
    service: ParserProcess, vlm: SimulatedVlm, loaded_opentelemetry: Path
):
    """Neither in the service nor in its worker."""
    service.page(samples.image())
    assert len(vlm.requests) == 7 and set(vlm.traceparents) == {None}
    assert not loaded_opentelemetry.exists()


def test_with_a_collector_it_is(start_service, vlm: SimulatedVlm, tmp_path: Path):
    """Else the test above would prove nothing."""
    paths, loaded = telltale(tmp_path, *OPENTELEMETRY)
    on = start_service(VLM_URL=vlm.url, PYTHONPATH=paths, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    on.process.wait()
    assert loaded.exists(), "traces would load them"


def test_a_collector_that_hangs_costs_no_page(traced: ParserProcess, vlm: SimulatedVlm, receiver: OtlpReceiver):
    client = Client()
    with receiver.hanging():
        for _ in range(2):
            body = {"file": samples.image(), "visualize": False}
            assert traced.client.post("/layout-parsing", json=body, headers=client.headers).status_code == 200
        assert not [span for span in receiver.spans() if span.trace == client.trace]
    spans = receiver.of(client.trace, with_pages("POST /layout-parsing", 2))
    assert tree(spans, client.span) == {"POST /layout-parsing": PAGE}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "expected the collector's address"),
        ("OTEL_TRACES_SAMPLER_ARG", "2", "less than or equal to 1"),
    ],
)
def test_a_wrong_setting_stops_the_start(refused_start, name: str, value: str, expected: str):
    words = refused_start(VLM_URL="http://127.0.0.1:9/v1", **{name: value})
    assert name in words and expected in words


def test_a_share_of_requests_is_traced_as_the_setting_says():
    from docparser.traces.spans import Spans  # it loads OpenTelemetry

    spans = Spans(Settings(otlp_endpoint="http://127.0.0.1:9", traces_sampler_arg=0.25))
    try:
        assert "root:TraceIdRatioBased{0.25}" in spans._provider.sampler.get_description()
    finally:
        spans.stop()
