# SPDX-License-Identifier: Apache-2.0
"""The job runner over a simulated parse service: the VLM goes away whenever it has the guilty page in work, and every
page that is in work at that moment is lost with it."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from prometheus_client import CollectorRegistry

from docparser.clients.allowance import Allowance, ClientMetrics
from docparser.clients.key_ring import KeyRing
from docparser.clients.usage import SqliteUsage, UsageLedger
from docparser.contract.schemas import ParseOptions
from docparser.documents.spool import Document
from docparser.errors import VlmUnavailable
from docparser.jobs.result import Damage
from docparser.jobs.runner import JobRunner
from docparser.jobs.storage.retention import Retention
from docparser.models.readiness import Readiness
from docparser.parsing.result import PageOutcome
from docparser.parsing.scheduler import Flow
from docparser.parsing.service import ParseService
from docparser.settings import Settings
from docparser.worker.messages import ParsedPage
from tests.support.job_place import Place

PAGES, GUILTY = 12, 5


class SimulatedService(ParseService):
    def __init__(self) -> None:
        self.in_work: dict[int, asyncio.Event] = {}
        self.begun: Counter[int] = Counter()

    def watches(self, client: str) -> bool:
        return False

    async def count_pages(self, document: Document, flow: Flow) -> int:
        return PAGES

    async def page(
        self,
        document: Document,
        index: int,
        options: ParseOptions,
        flow: Flow,
        request_id: str = "",
        waited_s: float = 0.0,
    ) -> PageOutcome:
        number = index + 1
        self.begun[number] += 1
        lost = self.in_work[number] = asyncio.Event()
        try:
            if number == GUILTY:
                await asyncio.sleep(0.005)
                for other in self.in_work.values():
                    other.set()
            async with asyncio.timeout(0.2):
                await lost.wait()
            raise VlmUnavailable("The VLM server cannot be reached.")
        except TimeoutError:
            entry = b'{"markdown": {"text": "", "images": {}}}'
            return PageOutcome(index, parsed=ParsedPage(entry, 1, 1, 1, [], {}))
        finally:
            del self.in_work[number]


class Ready(Readiness):
    """Readiness of a VLM that is back at once."""

    def __init__(self) -> None:
        pass

    async def check(self) -> tuple[Any, list[str]]:
        return {}, []

    async def models_in_use(self) -> Any:
        return {}


def runner_of(place: Place, service: SimulatedService) -> JobRunner:
    settings = Settings(workers=1, pages_in_flight=PAGES)
    retention = Retention(place.database, place.files, age_s=1e6, most_bytes=1 << 40)
    anyone = Allowance(
        KeyRing(), UsageLedger(SqliteUsage(place.files.root / "usage.sqlite3")), ClientMetrics(CollectorRegistry())
    )
    damage = Damage(place.queue, place.files, CollectorRegistry())
    return JobRunner(settings, service, Ready(), place.store, place.queue, place.files, retention, anyone, damage)
