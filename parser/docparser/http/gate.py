# SPDX-License-Identifier: Apache-2.0
"""Admits requests: gives each an id, asks who sends it (``admission``), takes its body in (``bodies``), and limits how
many are at work. Where traces are on, each has a span."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import hashlib
import logging
import re
import time
import uuid
from collections.abc import Callable

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from docparser import traces
from docparser.clients.shares import ConcurrencyLimit, network_of
from docparser.contract.request_parts import with_priority
from docparser.errors import DocumentTooLarge, SpoolFull, TooBusy
from docparser.http.admission import Admission
from docparser.http.bodies import Arriving, Bodies, Body
from docparser.http.errors import early_error, early_response, unexpected_response
from docparser.http.paths import route_of, rule_of, shown_path
from docparser.logs import request_id
from docparser.parsing.metrics import Metrics
from docparser.settings import Settings

log = logging.getLogger("docparser.access")

SENT_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}")
EARLY = (DocumentTooLarge, SpoolFull, TooBusy)
STOPPING = "The service is stopping; send the request again."
OTHER_VERSION = "This service speaks HTTP/1.1 and HTTP/1.0 only."
CODINGS = {"br", "compress", "deflate", "gzip", "x-compress", "x-gzip", "zstd"}  # other words say nothing of the bytes
BOTH_LENGTHS = "Content-Length: came together with Transfer-Encoding; send one of them."


def client_of(request: Request) -> str:
    """The client, which takes turns with other clients: the id of its API key, and its priority. Without keys, a client
    is told from others by its address and the token that it may send."""
    key = getattr(request.state, "key_id", "")
    if key:
        return with_priority(str(key), bulk=request.state.bulk)
    token = hashlib.sha256(request.headers.get("authorization", "").encode()).hexdigest()[:12]
    return f"{network_of(request.client.host) if request.client else ''} {token}"


def holder_of(scope: Scope) -> str:
    """The client whose share of places and bytes a request takes: the id of its key, else its address. The token that
    it may send without keys does not count: it can be made up anew for each request."""
    return str(scope["state"]["key_id"] or (network_of(scope["client"][0]) if scope.get("client") else ""))


def pages_of(request: Request) -> Callable[[int], None]:
    """Counts a document's pages towards the client's quotas. Raises QuotaExceeded, DocumentTooLarge."""
    return functools.partial(request.app.state.allowance.spend_pages, request.state.key_id)


class Gate:
    """ASGI middleware. The request's id is the client's ``X-Request-Id`` or a new one, and comes back as that header.
    ``request.state.key_id`` is the client's id, "" where no key is needed. What fails unexpectedly is answered here,
    because Starlette would do so in front of all middleware: no id, no status in logs and metrics."""

    def __init__(self, app: ASGIApp, *, settings: Settings, admission: Admission, metrics: Metrics) -> None:
        self._app = app
        self._bodies = Bodies(settings)
        self._heard = 2 * settings.max_body_mib << 20
        self._places = ConcurrencyLimit(settings.max_requests, "parsing requests at work", "PARSER_MAX_REQUESTS")
        self._admission = admission
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began, status = time.monotonic(), 0
        headers = dict(scope["headers"])
        sent = headers.get(b"x-request-id", b"")
        identity = sent.decode() if SENT_ID.fullmatch(sent) else uuid.uuid4().hex
        token: contextvars.Token = request_id.set(identity)

        async def tagged(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [(b"x-request-id", identity.encode()), (b"x-content-type-options", b"nosniff")]
                message["headers"] = [*message.get("headers", ()), *own]
            await send(message)

        async def failed(exc: Exception, send: Send) -> None:
            response = unexpected_response(scope, exc)
            if status:  # the answer has begun, so only its connection can end
                raise exc
            await response(scope, receive, send)

        try:
            if not scope["http_version"].startswith("1."):  # h11 takes HTTP/2's preface for a request
                return await early_response(scope, 505, OTHER_VERSION)(scope, receive, tagged)
            arriving = Arriving(scope, receive, self._heard)
            async with self._admission.admitted(scope, arriving, tagged) as way:
                if way is not None:
                    try:
                        await self._with_body(scope, headers, arriving, *way)
                    except Exception as exc:  # within admission, which notes the status
                        await failed(exc, way[1])
        except Exception as exc:
            if status:
                raise
            await failed(exc, tagged)
        except asyncio.CancelledError:  # the server stops, and its time for what is at work is over
            if status:
                raise
            await early_response(scope, 503, STOPPING, {"Retry-After": "5"})(scope, receive, tagged)
        finally:
            seconds = time.monotonic() - began
            self._metrics.request(route_of(scope), status, seconds)
            if not rule_of(scope["path"]).quiet:
                log.info("%s %s %d %.3f s", scope["method"], shown_path(scope["path"]), status, seconds)
            request_id.reset(token)

    async def _with_body(
        self, scope: Scope, headers: dict[bytes, bytes], arriving: Arriving, receive: Receive, send: Send
    ) -> None:
        """Nothing is held for a request but its body until that is whole: who sends slowly keeps nobody waiting."""
        client = holder_of(scope)
        declared = headers.get(b"content-length", b"")
        costly = scope["method"] == "POST" and rule_of(scope["path"]).costly
        with contextlib.ExitStack() as held:
            try:
                if declared and b"transfer-encoding" in headers:
                    # One of two servers in a row would see a request that the other does not (RFC 9112, 6.1).
                    return await early_response(scope, 400, BOTH_LENGTHS)(scope, receive, send)
                if scope["method"] == "POST" and (coding := _coding(headers)):
                    words = f"Content-Encoding: {coding!r} is not read here; send the body as it is."
                    refusal = early_response(scope, 415, words, {"Accept-Encoding": "identity"})
                    return await arriving.refused(refusal, scope, send)
                if costly:
                    self._places.check(client)
                body = held.enter_context(Body(self._bodies, client))
                body.check(int(declared) if declared.isdigit() else 0)
                if not await body.arrive(receive):
                    return None
                if costly:
                    held.enter_context(self._places.taken(client))
            except EARLY as exc:
                return await arriving.refused(early_error(scope, exc), scope, send)
            scope["state"]["body"] = body
            await self._app(scope, body.replay(receive), send)


def _coding(headers: dict[bytes, bytes]) -> str:
    """How the body is compressed; empty: it is not."""
    named = headers.get(b"content-encoding", b"").decode("latin-1").lower().replace(" ", "").split(",")
    return ",".join(coding for coding in named if coding in CODINGS)


class TracedRequests:
    """ASGI middleware; only there where traces are on. The span is named after the route, not the path, which may hold
    what nobody else is to know."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or rule_of(scope["path"]).quiet:
            return await self._app(scope, receive, send)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        parent = {name: headers[name] for name in traces.FIELDS if name in headers}
        method = scope["method"]
        with traces.span(method, parent, kind="server", http__request__method=method) as span:
            assert span is not None, "traces are on"

            async def seen(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] == 500:
                        traces.fail(span)
                    answered = dict(message["headers"])
                    span.set_attribute("request_id", answered.get(b"x-request-id", b"").decode())
                await send(message)

            await self._app(scope, receive, seen)
            if route := getattr(scope.get("route"), "path", ""):
                span.update_name(f"{method} {route}")
                span.set_attribute("http.route", route)
