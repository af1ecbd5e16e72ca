# SPDX-License-Identifier: Apache-2.0
"""What every request passes first: its id, its key, its place in the queue. Nothing of the body is read before."""

from __future__ import annotations

import contextvars
import logging
import re
import time
import uuid

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from docparser.api_keys import ApiKeys, needs_key
from docparser.http_errors import error_response
from docparser.logs import request_id
from docparser.metrics import Metrics
from docparser.settings import Settings

log = logging.getLogger("docparser.access")

SENT_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}")
COSTLY = ("/layout-parsing", "/restructure-pages", "/parse")
QUIET = ("/health", "/health/ready", "/metrics")
BUSY_RETRY_S = 10


def _shown(path: str) -> str:
    """The path without what gives permission to fetch a job's result."""
    return re.sub(r"(/api/v2/ocr/results/[^/]*/)[^/]*", r"\1…", path)[:200]


class Gate:
    """ASGI middleware. The request's id is the client's ``X-Request-Id`` or a new one, and comes back as that header.
    ``request.state.key_id`` is the id of the key that was sent, "" where none is needed."""

    def __init__(self, app: ASGIApp, *, settings: Settings, keys: ApiKeys, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._keys = keys
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
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", identity.encode())]
            await send(message)

        try:
            await self._admit(scope, headers, receive, tagged)
        finally:
            seconds = time.monotonic() - began
            self._metrics.request(scope, status, seconds)
            if scope["path"] not in QUIET:
                log.info("%s %s %d %.3f s", scope["method"], _shown(scope["path"]), status, seconds)
            request_id.reset(token)

    async def _admit(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send) -> None:
        owner = self._keys.owner(headers) if self._keys else ""
        scope.setdefault("state", {})["key_id"] = owner or ""
        if owner is None and needs_key(scope["method"], scope["path"]):
            words = "A key is needed: send `Authorization: Bearer KEY` or `X-Api-Key: KEY`, with one that the operator gave."
            challenge = {"WWW-Authenticate": "Bearer", "Connection": "close"}
            return await error_response(401, words, headers=challenge)(scope, receive, send)
        if scope["method"] != "POST" or scope["path"] not in COSTLY:
            return await self._app(scope, receive, send)
        declared = headers.get(b"content-length", b"")
        size = int(declared) if declared.isdigit() else 0
        full = self._no_room(size)
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

    def _no_room(self, size: int) -> str:
        settings = self._settings
        if self._requests >= settings.max_requests:
            return f"{self._requests} requests are being worked on, which is all that is allowed (PARSER_MAX_REQUESTS)."
        if self._requests and self._bytes + size > settings.max_bodies_mib << 20:
            return f"The requests that are being worked on have {settings.max_bodies_mib} MiB (PARSER_MAX_BODIES_MIB)."
        return ""

    @property
    def requests(self) -> int:
        return self._requests
