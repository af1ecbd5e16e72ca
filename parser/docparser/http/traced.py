# SPDX-License-Identifier: Apache-2.0
"""A span for each request, below the one that its client names (``traceparent``, W3C Trace Context)."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from docparser import traces
from docparser.http.gate import QUIET


class TracedRequests:
    """ASGI middleware; only there where traces are on. The span is named after the route, not the path, which may hold
    what nobody else is to know."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in QUIET:
            return await self._app(scope, receive, send)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        parent = {name: headers[name] for name in traces.FIELDS if name in headers}
        method = scope["method"]
        with traces.span(method, parent, kind="server", http__request__method=method) as span:
            assert span is not None, "traces are on"

            async def seen(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    answered = dict(message["headers"])
                    span.set_attribute("request_id", answered.get(b"x-request-id", b"").decode())
                await send(message)

            await self._app(scope, receive, seen)
            if route := getattr(scope.get("route"), "path", ""):
                span.update_name(f"{method} {route}")
                span.set_attribute("http.route", route)
