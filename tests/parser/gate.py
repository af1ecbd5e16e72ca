# SPDX-License-Identifier: Apache-2.0
"""A gate with one key before an app that answers who asked, without workers, and requests to it."""

from __future__ import annotations

import asyncio
import json

import httpx

from docparser.clients.allowance import Allowance, ClientMetrics
from docparser.clients.audit import AuditLog
from docparser.clients.key_ring import KeyRing
from docparser.clients.keys import digest
from docparser.clients.origins import Origins
from docparser.clients.usage import SqliteUsage, UsageLedger
from docparser.http.admission import Admission
from docparser.http.gate import Gate, TracedRequests
from docparser.parsing.metrics import Metrics
from docparser.parsing.pool import WorkerPool
from docparser.parsing.scheduler import PageScheduler
from docparser.settings import Settings

KEY = "a-key-of-the-operator"
ENTRY = f"sha256:{digest(KEY)}"


def gated(settings: Settings, app=None) -> Gate:
    async def echo(scope, receive, send):
        body = json.dumps(scope["state"]["key_id"]).encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    pool = WorkerPool(settings)
    metrics = Metrics(pool, PageScheduler(settings, pool))
    ring, by_client = KeyRing.of(settings), ClientMetrics(metrics.registry)
    allowance = Allowance(ring, UsageLedger(SqliteUsage(settings.data_dir / "usage.sqlite3")), by_client)
    admission = Admission(ring, Origins(settings), allowance, AuditLog("off"), by_client)
    return Gate(app or echo, settings=settings, admission=admission, metrics=metrics)


def client(gate: Gate | TracedRequests) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(gate), base_url="http://127.0.0.1:8080")


def ask(gate: Gate | TracedRequests, method: str, path: str, **headers: str) -> httpx.Response:
    async def run():
        async with client(gate) as http:
            return await http.request(method, path, headers=headers)

    return asyncio.run(run())
