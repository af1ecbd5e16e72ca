# SPDX-License-Identifier: Apache-2.0
"""A collector of traces (OTLP over HTTP), in a process of its own that has the library to read them; keeps all spans.

python -m tests.support.otlp_receiver FILE    # prints its port; writes a line of JSON for each span
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.paths import python_of
from tests.support.processes import child_environment
from tests.support.wait import wait_for


@dataclasses.dataclass(frozen=True)
class SeenSpan:
    """``trace``, ``id``, ``parent``: in hexadecimal digits; times in ns since the epoch. ``of``: what the sender says
    of itself, its resource; ``headers``: those of the request that brought it."""

    trace: str
    id: str
    parent: str
    name: str
    kind: str
    began: int
    ended: int
    error: str
    attributes: dict[str, Any]
    of: dict[str, Any]
    headers: dict[str, str]


class OtlpReceiver:
    """``url``: for OTEL_EXPORTER_OTLP_ENDPOINT."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "spans.jsonl"
        self._file.touch()
        command = [str(python_of("parser")), "-m", "tests.support.otlp_receiver", str(self._file)]
        self._process = subprocess.Popen(command, env=child_environment(), stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None, "it is a pipe"
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def spans(self) -> list[SeenSpan]:
        """All so far."""
        lines = self._file.read_text().splitlines(keepends=True)
        return [SeenSpan(**json.loads(line)) for line in lines if line.endswith("\n")]

    def of(self, trace: str, complete: Callable[[list[SeenSpan]], bool]) -> list[SeenSpan]:
        """The spans of a trace, as soon as they are ``complete``."""

        def found() -> list[SeenSpan]:
            return [span for span in self.spans() if span.trace == trace]

        wait_for(lambda: complete(found()), what=f"the spans of {trace}: {[span.name for span in found()]}")
        return found()

    @contextlib.contextmanager
    def hanging(self) -> Iterator[None]:
        """It takes connections meanwhile, and answers nobody."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def tree(spans: list[SeenSpan], parent: str) -> dict[str, Any]:
    """The names below a span, each with those below it; equal ones count once."""
    below: dict[str, Any] = {}
    for span in spans:
        if span.parent == parent:
            found = below.setdefault(span.name, {})
            found |= tree(spans, span.id)
    return below


def main(file: Path) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    def read(attributes: Any) -> dict[str, Any]:
        return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in attributes}

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            lines = []
            for group in sent.resource_spans:
                of = {
                    name: value for name, value in read(group.resource.attributes).items() if type(value) in (str, int)
                }
                for span in (span for scope in group.scope_spans for span in scope.spans):
                    seen = SeenSpan(
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        span.name,
                        Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        span.status.message,
                        read(span.attributes),
                        of,
                        headers,
                    )
                    lines.append(json.dumps(dataclasses.asdict(seen), default=str) + "\n")
            with file.open("a") as kept:
                kept.write("".join(lines))
            self.send_response(200 if self.path == "/v1/traces" else 404)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
