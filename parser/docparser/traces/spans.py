# SPDX-License-Identifier: Apache-2.0
"""The spans that a process sends to the collector. Loads OpenTelemetry.

No span has a text, a name of a file or an error's message, only the kind of the error.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections.abc import Generator, Mapping

import requests
from opentelemetry import context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.re import parse_env_headers

from docparser.settings import Settings

SEND_EVERY_MS = 1000  # a worker that is ended loses what it has not sent
W3C = TraceContextTextMapPropagator()


class Spans:
    """``docparser.traces`` describes the methods."""

    def __init__(self, settings: Settings) -> None:
        session = requests.Session()
        session.trust_env = False  # no proxy and no .netrc, as for all that the service asks
        exporter = OTLPSpanExporter(
            f"{settings.otlp_endpoint.rstrip('/')}/v1/traces",
            headers=parse_env_headers(settings.otlp_headers, liberal=True),
            session=session,
        )
        resource = {"service.name": settings.otel_service_name, "service.instance.id": socket.gethostname()}
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(settings.traces_sampler_arg)),
            resource=Resource.create(resource),
            id_generator=_Ids(),
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=SEND_EVERY_MS))
        self._tracer = self._provider.get_tracer("docparser")

    def stop(self) -> None:
        self._provider.shutdown()

    @contextlib.contextmanager
    def span(
        self, name: str, parent: Mapping[str, str] | None, kind: str, attributes: Mapping[str, str | int]
    ) -> Generator[Span]:
        with self._tracer.start_as_current_span(
            name,
            context=W3C.extract(parent) if parent else None,
            kind=SpanKind[kind.upper()],
            attributes={name.replace("__", "."): value for name, value in attributes.items()},
            record_exception=False,  # its message may have words of a document
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except Exception as exc:
                span.set_status(StatusCode.ERROR, type(exc).__name__)
                raise

    def past(self, name: str, seconds: float, parent: Mapping[str, str]) -> None:
        now = time.time_ns()
        began = now - int(seconds * 1e9)
        self._tracer.start_span(name, W3C.extract(parent), start_time=began).end(now)

    @contextlib.contextmanager
    def below(self, parent: Mapping[str, str]) -> Generator[None]:
        token = context.attach(W3C.extract(parent))
        try:
            yield
        finally:
            context.detach(token)

    def carrier(self) -> dict[str, str]:
        found: dict[str, str] = {}
        W3C.inject(found)
        return found


class _Ids(IdGenerator):
    """From the system's generator. OpenTelemetry's own takes Python's, which PaddleX sets back to the same beginning:
    then spans of one tree have one id."""

    def generate_span_id(self) -> int:
        return secrets.randbits(64) or 1

    def generate_trace_id(self) -> int:
        return secrets.randbits(128) or 1
