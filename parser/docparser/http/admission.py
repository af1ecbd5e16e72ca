# SPDX-License-Identifier: Apache-2.0
"""Who may ask: host, origin, key and quotas of a request, checked before its body is read."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from docparser.clients.allowance import Allowance, ClientMetrics
from docparser.clients.audit import AuditLog, Caller, caller
from docparser.clients.key_ring import KeyRing
from docparser.clients.keys import Key, shown_time
from docparser.clients.origins import Origins
from docparser.errors import QuotaExceeded
from docparser.http.bodies import Arriving
from docparser.http.errors import early_error, early_response
from docparser.http.paths import RETRY, needs_key, rule_of, shown_path

Headers = dict[bytes, bytes]
HOW_TO_SEND = "send `Authorization: Bearer KEY` or `X-Api-Key: KEY` with your operator's key."
INVALID = 'Bearer error="invalid_token"'


def sent_key(headers: Headers) -> str:
    """The key in ``Authorization: Bearer KEY``, ``Authorization: token KEY`` or ``X-Api-Key: KEY``, or "".

    Or the password of ``Authorization: Basic``: what clients make of ``http://any:KEY@HOST``.
    """
    kind, _, sent = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if kind.lower() == "basic":
        sent = _password(sent.strip())
    elif kind.lower() not in ("bearer", "token"):
        sent = ""
    return sent.strip() or headers.get(b"x-api-key", b"").decode("latin-1").strip()


def _password(sent: str) -> str:
    """RFC 7617; "" for what is none."""
    try:
        return base64.b64decode(sent, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


def refusal(headers: Headers, key: Key | None) -> tuple[str, str, str]:
    """Reason for the audit log, words for the client, and ``WWW-Authenticate``. ``key``: the one that was sent, which
    has expired; None if none was sent that is known."""
    if key is not None and key.expires is not None:
        # The client has proved that it has this key, so it may learn what became of it.
        words = f"This key expired at {shown_time(key.expires)}; ask your operator for another one."
        return "key_expired", words, INVALID
    if sent_key(headers):
        return (
            "key_unknown",
            "This key is not known here; ask your operator for one, or whether it was revoked.",
            INVALID,
        )
    if b"authorization" in headers:
        return (
            "key_missing",
            "The header Authorization has no key in a form that is understood here: " + HOW_TO_SEND,
            "Bearer",
        )
    return "key_missing", "A key is needed, and none was sent: " + HOW_TO_SEND, "Bearer"


def cors(origins: tuple[str, ...]) -> dict[str, Any]:
    """What pages of these origins may send and read, in words of Starlette's CORSMiddleware. No cookies: there are
    none."""
    return {
        "allow_origins": origins,
        "allow_methods": ("GET", "POST", "DELETE"),
        "allow_headers": ("*",),  # clients say more of themselves than a list could name
        "expose_headers": (
            *("X-Request-Id", "Retry-After", "X-Should-Retry", "Content-Disposition"),
            *("Document-Pages", "Document-Partial", "Document-Notes"),
        ),
    }


class RequestRefused(Exception):
    """The request is answered with ``response``."""

    def __init__(self, reason: str, response: JSONResponse) -> None:
        super().__init__(reason)
        self.reason = reason
        self.response = response


class Admission:
    """One per service. ``admitted`` is the one call that the gate makes."""

    def __init__(
        self, ring: KeyRing, origins: Origins, allowance: Allowance, audit: AuditLog, metrics: ClientMetrics
    ) -> None:
        self._ring = ring
        self._origins = origins
        self._allowance = allowance
        self._audit = audit
        self._metrics = metrics

    @contextlib.asynccontextmanager
    async def admitted(
        self, scope: Scope, arriving: Arriving, send: Send
    ) -> AsyncIterator[tuple[Receive, Send] | None]:
        """What the request is read from and answered to, or None if it was refused and has its answer.

        Sets ``request.state.key_id`` to the client's id, "" where no key is needed or none was sent to a public path,
        and ``request.state.bulk`` to whether its key's pages are bulk.
        """
        headers = dict(scope["headers"])
        address = scope["client"][0] if scope.get("client") else ""
        token = caller.set(Caller(address=address))
        visit = _Visit(arriving.receive, send)
        client = ""
        try:
            try:
                self._check_origin(scope)
                key = self._known(scope, headers)
                client = key.id if key else ""
                scope.setdefault("state", {}).update(key_id=client, bulk=key is not None and key.priority == "bulk")
                visit.name = key.name if key else ""
                caller.set(Caller(visit.name, client, address))
                async with self._within_quotas(scope, headers, client, visit):
                    yield visit.receive, visit.send
            except RequestRefused as refused:
                self._audit.refusal(refused.reason, method=scope["method"], path=shown_path(scope["path"]))
                await arriving.refused(refused.response, scope, visit.send)
                yield None
        finally:
            self._metrics.request(visit.name, visit.status)
            if scope["method"] == "POST" and rule_of(scope["path"]).document and visit.admitted:
                self._audit.record(
                    "document.submitted", path=scope["path"], status=visit.status or 499, bytes=visit.received
                )
            caller.reset(token)

    def _check_origin(self, scope: Scope) -> None:
        foreign = None if rule_of(scope["path"]).probe else self._origins.check(scope["method"], scope["headers"])
        if foreign is not None:
            self._metrics.denied(foreign.reason)
            raise RequestRefused(foreign.reason, early_response(scope, foreign.status, foreign.words))

    def _known(self, scope: Scope, headers: dict[bytes, bytes]) -> Key | None:
        if not self._ring:
            return None
        sent = sent_key(headers)
        key = self._ring.find(sent)
        if key is not None and not key.expired(time.time()):
            return key
        if not needs_key(scope["method"], scope["path"]):
            return None
        if key is not None:
            caller.set(Caller(key.name, key.id, caller.get().address))
        reason, words, challenge = refusal(headers, key)
        self._metrics.denied(reason)
        raise RequestRefused(reason, early_response(scope, 401, words, {"WWW-Authenticate": challenge}))

    @contextlib.asynccontextmanager
    async def _within_quotas(
        self, scope: Scope, headers: dict[bytes, bytes], client: str, visit: _Visit
    ) -> AsyncIterator[None]:
        allowance = self._allowance
        counted = bool(client) and allowance.has_quotas(client)
        size = headers.get(b"content-length", b"")
        visit.declared = int(size) if size.isdigit() and len(size) < 16 else 0
        try:
            allowance.enter(client)
        except QuotaExceeded as exc:
            raise RequestRefused("quota", early_error(scope, exc)) from None
        try:
            if counted:
                try:
                    await asyncio.to_thread(self._check_quotas, scope, headers, client, visit.declared)
                except QuotaExceeded as exc:
                    raise RequestRefused("quota", early_error(scope, exc)) from None
                allowance.arriving(client, visit.declared)
                visit.arriving = lambda amount: allowance.arriving(client, amount)
            visit.admitted = True
            try:
                yield
            finally:
                if counted:
                    # A request whose client left is still cancelled, but its bytes count.
                    await asyncio.shield(asyncio.to_thread(self._count_bytes, client, visit))
                else:
                    allowance.spend(client, "bytes", visit.received, force=True)
        finally:
            allowance.leave(client)

    def _count_bytes(self, client: str, visit: _Visit) -> None:
        if visit.received:
            self._allowance.spend(client, "bytes", visit.received, force=True)
        self._allowance.arriving(client, -max(visit.declared, visit.received))

    def _check_quotas(self, scope: Scope, headers: dict[bytes, bytes], client: str, size: int) -> None:
        """What can be known before the body is read. Jobs and pages are counted when they are made and opened."""
        method, path = scope["method"], scope["path"]
        if method == "POST":
            # A repeated submission makes no job, so its key is looked up first.
            rule = rule_of(path)
            makes_job = rule.makes_job and b"idempotency-key" not in headers
            if makes_job:
                self._allowance.check(client, "jobs")
            if makes_job or rule.reads or RETRY.fullmatch(path):
                self._allowance.check(client, "pages")
            self._allowance.check(client, "bytes", max(size, 1))
        self._allowance.spend(client, "requests")


class _Visit:
    """A request that was let in: counts what comes, and notes the answer's status."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self.name = ""
        self.admitted = False
        self.declared = 0
        self.received = 0
        self.status = 0
        self.arriving = lambda amount: None

    async def receive(self) -> Message:
        message = await self._receive()
        before = max(self.declared, self.received)
        self.received += len(message.get("body", b""))
        if self.received > before:  # more than was announced, or nothing was
            self.arriving(self.received - before)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)
