# SPDX-License-Identifier: Apache-2.0
"""The job service put together without HTTP. The parsing of pages is simulated, and not reached."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from docparser.clients.allowance import Allowance, ClientMetrics
from docparser.clients.audit import AuditLog
from docparser.clients.key_ring import KeyRing
from docparser.clients.keys import digest
from docparser.clients.usage import SqliteUsage, UsageLedger
from docparser.contract.schemas import ParseOptions
from docparser.errors import InvalidRequest
from docparser.jobs.service import JobService
from docparser.jobs.submission import check_submission
from docparser.models.served_model import ServedModel
from docparser.models.vlm_probe import ReplicaCount
from docparser.settings import Settings
from tests.support.simulated_parse_service import Ready, SimulatedService

ME = digest("key")[:16]
MODEL = ServedModel("PaddleOCR-VL", "PaddleOCR-VL-0.9B", ("ocr",), strict=False)


class Presence(Ready):
    """Notes how long the VLM may be away."""

    def __init__(self) -> None:
        self.conditions: dict[str, Callable[[], str]] = {}
        self.asked: list[float] = []
        self.replicas = ReplicaCount(Settings())  # of no address

    def add_condition(self, name: str, trouble: Callable[[], str]) -> None:
        self.conditions[name] = trouble

    async def check_presence(self, longest_s: float) -> None:
        self.asked.append(longest_s)


class Knows(SimulatedService):
    def notes(self, options: ParseOptions) -> list[str]:
        if options.promptLabel == "seal":
            raise InvalidRequest("promptLabel: 'seal' is no task")
        return options.notes()


Made = Callable[..., JobService]


def services(root: Path, registry: CollectorRegistry) -> Iterator[Made]:
    """For a fixture: makes services over one data directory. Each knows one key, named `me`, with the quotas of
    ``entry``."""
    made: list[JobService] = []

    def make(entry: str = "", **settings: Any) -> JobService:
        ring = KeyRing(f"sha256:{digest('key')} name=me {entry}")
        allowance = Allowance(ring, UsageLedger(SqliteUsage(root / "usage.sqlite3")), ClientMetrics(registry))
        own = Settings(**{"data_dir": root, "min_free_mib": 0, **settings})
        audit = AuditLog(str(root / "audit.jsonl"))
        made.append(JobService(own, Knows(), Presence(), allowance, audit, MODEL, registry))
        return made[-1]

    yield make
    for service in made:
        asyncio.run(service.close())
        service.audit.close()


def keep(service: JobService, key: str | None = None, **fields: Any) -> str:
    document = io.BytesIO(b"%PDF-1.4")
    fields = {"model": "PaddleOCR-VL", **fields}
    submission = check_submission(fields, document, file_name="a.pdf", idempotency_key=key, served=MODEL)
    return service.keep(submission, ME, ME, "http://parser.example")


def audited(folder: Path, field: str) -> list[str]:
    return [json.loads(line)[field] for line in (folder / "audit.jsonl").read_text().splitlines()]


def used(service: JobService) -> list[int]:
    return [quota["used"] for quota in service.allowance.report(service.allowance._ring.keys()[0])]
