# SPDX-License-Identifier: Apache-2.0
"""A page that takes the VLM down each time ends some day, and takes no innocent page with it.

The job runner and the store are real. Simulated is the service that parses a page
(tests/support/simulated_parse_service.py).
"""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from docparser.jobs import runner as runner_module
from docparser.jobs import step_work
from docparser.jobs.step_work import ABSENCES, SUSPECT
from tests.support.job_place import Place
from tests.support.simulated_parse_service import GUILTY, PAGES, SimulatedService, runner_of


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
