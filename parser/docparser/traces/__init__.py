# SPDX-License-Identifier: Apache-2.0
"""Traces by OpenTelemetry: one tree a page, over processes (docs/traces.md, decision 0241).

    request -> page -> queue
                    -> worker -> render, layout, write
                              -> block -> vlm -> what vLLM says itself

Off unless OTEL_EXPORTER_OTLP_ENDPOINT names a collector: then nothing of OpenTelemetry is imported, and every function
here does nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from docparser.settings import Settings

if TYPE_CHECKING:  # it loads OpenTelemetry
    from docparser.traces.spans import Span, Spans

T = TypeVar("T")
# W3C Trace Context: ``traceparent``, and ``tracestate`` where there is one. Goes with messages and requests.
Carrier = Mapping[str, str]
FIELDS = ("traceparent", "tracestate")
_OFF: AbstractContextManager[None] = contextlib.nullcontext()
_spans: Spans | None = None


def start(settings: Settings) -> None:
    """Once in each process, before its first span."""
    global _spans
    if settings.otlp_endpoint:
        from docparser.traces.spans import Spans

        _spans = Spans(settings)


def stop() -> None:
    """Send what is left."""
    if _spans is not None:
        _spans.stop()


def span(
    name: str, parent: Carrier | None = None, kind: str = "internal", **attributes: str | int
) -> AbstractContextManager[Span | None]:
    """A span as long as the context, below ``parent``, or the span that this thread or task is in. An exception makes
    it an error. ``kind``: internal, server or client; of attributes ``__`` in a name is a dot."""
    return _OFF if _spans is None else _spans.span(name, parent, kind, attributes)


def fail(span: Span) -> None:
    """Make a span an error whose exception does not pass through its context."""
    from opentelemetry.trace import StatusCode

    span.set_status(StatusCode.ERROR)


def past(name: str, seconds: float, parent: Carrier) -> None:
    """A span that ends now, and took ``seconds``; none where ``parent`` is empty."""
    if _spans is not None and parent:
        _spans.past(name, seconds, parent)


def below(parent: Carrier) -> AbstractContextManager[None]:
    """Spans of this task belong below ``parent``, a span of another process; below none where it is empty."""
    return _OFF if _spans is None or not parent else _spans.below(parent)


def within(name: str, work: Coroutine[Any, Any, T], **attributes: str | int) -> Coroutine[Any, Any, T]:
    """``work`` in a span of its own, which begins when it is awaited."""

    spans = _spans
    if spans is None:
        return work

    async def traced() -> T:
        with spans.span(name, None, "internal", attributes):
            return await work

    return traced()


def carrier() -> dict[str, str]:
    """Of the span that this thread or task is in; as headers, they lead on to another service. Empty when off."""
    return {} if _spans is None else _spans.carrier()
