# SPDX-License-Identifier: Apache-2.0
"""Admits requests before their body is read: gives each an id, asks who sends it (``admission``), and limits how many
are at work."""

from __future__ import annotations

import contextvars
import logging
import re
import time
import uuid

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from docparser.http.admission import Admission
from docparser.http.errors import error_response
from docparser.logs import request_id
from docparser.parsing.metrics import Metrics
from docparser.settings import Settings

log = logging.getLogger("docparser.access")

SENT_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}")
COSTLY = ("/layout-parsing", "/restructure-pages", "/parse")
QUIET = ("/health", "/health/ready", "/metrics")
BUSY_RETRY_S = 10


def _shown(path: str) -> str:
    """The path without the signature that permits to fetch a job's result."""
    return re.sub(r"(/api/v2/ocr/results/[^/]*/)[^/]*", r"\1…", path)[:200]


class Gate:
    """ASGI middleware. The request's id is the client's ``X-Request-Id`` or a new one, and comes back as that header.
    ``request.state.key_id`` is the client's id, "" where no key is needed."""

    def __init__(self, app: ASGIApp, *, settings: Settings, admission: Admission, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._admission = admission
        self._metrics = metrics
        self._requests = 0
        self._bytes = 0

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
                headers_out = [*message.get("headers", ()), (b"x-request-id", identity.encode())]
                if not any(name == b"x-content-type-options" for name, _ in headers_out):
                    headers_out.append((b"x-content-type-options", b"nosniff"))
                message["headers"] = headers_out
            await send(message)

        try:
            async with self._admission.admitted(scope, receive, tagged) as way:
                if way is not None:
                    await self._place(scope, headers, *way)
        finally:
            seconds = time.monotonic() - began
            self._metrics.request(scope["path"], status, seconds)
            if scope["path"] not in QUIET:
                log.info("%s %s %d %.3f s", scope["method"], _shown(scope["path"]), status, seconds)
            request_id.reset(token)

    async def _place(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send) -> None:
        if scope["method"] != "POST" or scope["path"] not in COSTLY:
            return await self._app(scope, receive, send)
        declared = headers.get(b"content-length", b"")
        size = int(declared) if declared.isdigit() else 0
        full = self._refusal(size)
        if full:
            retry = {"Retry-After": str(BUSY_RETRY_S), "Connection": "close"}
            return await error_response(429, full, headers=retry)(scope, receive, send)
        self._requests += 1
        self._bytes += size
        try:
            await self._app(scope, receive, send)
        finally:
            self._requests -= 1
            self._bytes -= size

    def _refusal(self, size: int) -> str:
        settings = self._settings
        if self._requests >= settings.max_requests:
            return f"{self._requests} requests are being worked on, which is all that is allowed (PARSER_MAX_REQUESTS)."
        if self._requests and self._bytes + size > settings.max_bodies_mib << 20:
            return f"The requests that are being worked on have {settings.max_bodies_mib} MiB (PARSER_MAX_BODIES_MIB)."
        return ""

    @property
    def requests(self) -> int:
        return self._requests
