# SPDX-License-Identifier: Apache-2.0
"""A page that takes the VLM down each time ends some day, and takes no innocent page with it.

The job runner and the store are real. Simulated is the service that parses a page: the VLM goes away whenever it has
the guilty page in work, and every page that is in work at that moment is lost with it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from docparser.clients.allowance import Allowance, ClientMetrics
from docparser.clients.key_ring import KeyRing
from docparser.clients.usage import SqliteUsage, UsageLedger
from docparser.contract.schemas import ParseOptions
from docparser.documents.spool import Document
from docparser.errors import VlmUnavailable
from docparser.jobs import runner as runner_module
from docparser.jobs import step_work
from docparser.jobs.result import Damage
from docparser.jobs.runner import JobRunner
from docparser.jobs.step_work import ABSENCES, SUSPECT
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


def test_the_guilty_page_ends_and_the_others_are_parsed(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(runner_module, "POLL_S", 0.01)
    monkeypatch.setattr(runner_module, "PAUSE_S", 0.05)
    monkeypatch.setattr(step_work, "PAUSE_S", 0.05)
    place, service = Place(tmp_path), SimulatedService()
    job_id = place.submit(PAGES)

    async def scenario() -> None:
        runner = runner_of(place, service)
        runner.start()
        for _ in itertools.count():
            if place.store.job(job_id).state.ended:
                break
            await asyncio.sleep(0.02)
        await runner.close()

    asyncio.run(scenario())
    _, counts, steps, _ = place.store.look(job_id)
    assert (counts.done, counts.failed) == (PAGES - 1, 1)
    (failed,) = [step for step in steps if step.state == "failed"]
    assert failed.number == GUILTY and f"went away {ABSENCES} times" in str(failed.error)
    assert service.begun[GUILTY] == ABSENCES
    assert max(count for number, count in service.begun.items() if number != GUILTY) <= SUSPECT + 1


def test_the_runner_ends_although_it_is_woken_in_the_same_turn(tmp_path: Path):
    async def scenario() -> None:
        runner = runner_of(Place(tmp_path), SimulatedService())
        runner.start()
        await asyncio.sleep(0.2)  # it found nothing, and waits
        runner.wake()
        async with asyncio.timeout(5):
            await runner.close()

    asyncio.run(scenario())
