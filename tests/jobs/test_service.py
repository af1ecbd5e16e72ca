# SPDX-License-Identifier: Apache-2.0
"""The job service put together without HTTP: which settings reach what, and what it says of itself and of its jobs."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import generate_latest
from starlette.requests import Request

from docparser.convert.names import How
from docparser.documents.spool import Document
from docparser.errors import InvalidJob, JobNotFound
from docparser.http import answers, service_info
from docparser.http.dialects import docling
from docparser.http.jobs import results, routes
from docparser.jobs.links import STEP_S
from docparser.jobs.result import describe_told
from docparser.jobs.service import JobService
from docparser.jobs.storage import retention
from docparser.jobs.storage.callbacks import CallbackState, Told
from docparser.jobs.storage.reconcile import reconcile
from docparser.jobs.storage.states import JobState
from tests.support.job_place import Place
from tests.support.job_service import ME, Made, audited, keep
from tests.support.off_the_loop import off_the_loop
from tests.support.wait import WAIT_S

HOUR_S = 3600
DAY = "1970-01-02T00:00:00.250Z"


@pytest.mark.parametrize(
    ("settings", "later_s", "removed"),
    [
        ({"job_keep_hours": 2.0}, 2 * HOUR_S - 60, 0),
        ({"job_keep_hours": 2.0}, 2 * HOUR_S + 60, 1),
        ({"job_keep_gib": 100 / 2**30}, 0, 0),
        ({"job_keep_gib": 4 / 2**30}, 0, 1),
    ],
)
def test_how_long_and_how_much_is_kept(make_service: Made, tmp_path: Path, monkeypatch, settings, later_s, removed):
    service, place = make_service(**settings), Place(tmp_path)
    place.store.cancel(job_id := place.submit(), "")  # 5 bytes
    now = time.time() + later_s
    monkeypatch.setattr(retention.time, "time", lambda: now)
    assert service.runner._retention.sweep() == removed
    assert audited(tmp_path, "job") == [job_id] * removed and audited(tmp_path, "reason") == ["retention"] * removed


def test_addresses_live_as_long_as_the_setting_says(make_service: Made):
    service = make_service(result_url_hours=2.0)
    expires = int(service.links.path("a" * 32, "result.jsonl").split("/")[6].partition("-")[0])
    assert 2 * HOUR_S < expires - time.time() <= 2 * HOUR_S + STEP_S


@pytest.mark.parametrize(("minutes", "asked"), [(0.0, []), (5.0, [300.0])])
def test_how_long_the_vlm_may_be_away(make_service: Made, minutes, asked):
    service = make_service(job_vlm_away_minutes=minutes)
    asyncio.run(service.check_presence())
    readiness: Any = service._readiness
    assert readiness.asked == asked and readiness.conditions["jobs"]() == ""


def test_only_its_owner_purges_a_job_and_only_after_its_end(make_service: Made):
    service = make_service()
    job_id = keep(service)
    with pytest.raises(InvalidJob, match="pending; cancel it first"):
        service.purge(job_id, ME)
    service.store.cancel(job_id, ME)
    with pytest.raises(JobNotFound):
        service.purge(job_id, "another")
    service.purge(job_id, ME)
    assert service.files.job_ids() == set()


FORM = b"".join(
    b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % part
    for part in ((b'file"; filename="a.pdf', b"%PDF-1.4"), (b"model", b"PaddleOCR-VL"))
)


async def nothing(*_: Any, **__: Any) -> None:
    pass


def test_nothing_that_blocks_is_done_in_the_event_loop(make_service: Made, tmp_path: Path, registry, monkeypatch):
    service, place = make_service(), Place(tmp_path)
    job_id = place.submit(2)
    place.parse(place.claim())
    place.queue.fail(place.claim(), "WorkerLost", "lost", join=False)
    metrics = SimpleNamespace(exposition=lambda: generate_latest(registry))
    state = SimpleNamespace(
        jobs=service, readiness=service._readiness, settings=service._settings, intake=None, metrics=metrics
    )
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "server": ("parser", 80), "state": {}}
    scope |= {"app": SimpleNamespace(state=state), "headers": [(b"content-type", b"multipart/form-data; boundary=x")]}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": FORM + b"--x--\r\n"}

    request = Request(scope, receive)
    permission = service.links.path(job_id, "").split("/")[-2]

    async def scenario() -> None:
        await results.jsonl(job_id, permission, request)
        await results.picture(job_id, permission, 1, "a.jpg", request)
        await results.page(job_id, 2, request)
        await routes.state(job_id, request)
        await routes.submit(request)
        await service_info.metrics(request)
        await docling._submitted(request, io.BytesIO(b"%PDF-1.4"), docling.DoclingOptions(), "a.pdf")
        async with results.local_files(service, place.store.job(job_id), "pdf"):
            pass
        source, how = Document("a.pdf", "PDF"), How(chunk_tokens=1)
        await answers.converted(request, (), 1, "a.pdf", "pdf", source, how)

    blocks = SimpleNamespace(isfile=lambda path: asyncio.run(nothing()))  # no event loop may run in another one
    monkeypatch.setattr(answers, "os", SimpleNamespace(path=blocks))
    monkeypatch.setattr(answers, "from_child", nothing)
    with off_the_loop():
        asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


def capacity(service: JobService) -> dict[str, Any]:
    state = SimpleNamespace(jobs=service, settings=service._settings)
    request: Any = SimpleNamespace(app=SimpleNamespace(state=state))
    return json.loads(bytes(asyncio.run(routes.capacity(request)).body))["result"]


def test_what_the_capacity_says_of_the_queue(make_service: Made, tmp_path: Path):
    service, place = make_service(max_queued_jobs=3, max_queued_pages=3), Place(tmp_path)
    assert capacity(service) | {"accepting": True, "estimateSeconds": None} == capacity(service)
    place.submit(5)
    for _ in range(2):
        place.parse(place.claim())
    place.claim()
    found = capacity(service)
    assert found["pages"] == {"queued": 2, "running": 1, "most": 3}
    assert found["jobs"] == {"pending": 0, "running": 1, "most": 3}
    # Two pages in 300 s; three wait or are at work, and the one that is submitted now.
    assert (found["pagesPerMinute"], found["estimateSeconds"], found["accepting"]) == (0.4, 600.0, True)
    place.submit()  # its opening waits, too
    found = capacity(service)
    assert found["jobs"]["pending"] == 1 and found["pages"]["queued"] == 3 and not found["accepting"]


def test_pages_that_wait_again_are_not_counted_as_finished(make_service: Made, tmp_path: Path):
    service, place = make_service(), Place(tmp_path)
    job_id = place.submit(4)
    lost = place.parse(place.claim())
    place.parse(place.claim())
    for _ in range(2):
        place.queue.fail(place.claim(), "WorkerLost", "lost", join=False)
    assert capacity(service)["pagesPerMinute"] == 0.8
    place.store.retry(job_id, "")
    assert capacity(service)["pagesPerMinute"] == 0.4
    place.files.remove_page(job_id, lost)
    reconcile(place.database, place.files)
    assert capacity(service)["pagesPerMinute"] == 0.2


def test_jobs_beyond_their_bound_are_not_accepted(make_service: Made, tmp_path: Path):
    service, place = make_service(max_queued_jobs=2), Place(tmp_path)
    place.submit(), place.submit()
    place.claim()
    assert not capacity(service)["accepting"]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (None, {"state": "waiting", "attempts": 0}),
        (("queued", 0, None, None), {"state": "queued", "attempts": 0}),
        (("sending", 1, None, None), {"state": "sending", "attempts": 1, "lastStatus": None}),
        (
            ("queued", 2, 500, "why"),
            {"state": "queued", "attempts": 2, "lastStatus": 500, "lastError": "why", "nextTime": DAY},
        ),
        (("delivered", 3, 204, None), {"state": "delivered", "attempts": 3, "lastStatus": 204}),
        (("over", 1, None, None), {"state": "over", "attempts": 1}),
    ],
)
def test_what_a_jobs_state_says_of_its_callback(tmp_path: Path, told: tuple | None, said: dict[str, Any]):
    place = Place(tmp_path)
    job = place.store.job(place.submit(callback="https://hooks.example/"))
    found = Told("done", CallbackState(told[0]), told[1], 86_400.25, *told[2:]) if told else None
    assert describe_told(job, found) == (said if told is None else {"type": "job.done", **said})
    assert describe_told(place.store.job(place.submit()), found) is None


@pytest.mark.parametrize(
    ("state", "status", "counts"),
    [
        ("pending", "pending", (0, 0, 0)),
        ("running", "started", (0, 0, 0)),
        ("done", "success", (1, 1, 0)),
        ("failed", "failure", (1, 0, 1)),
        ("cancelled", "failure", (1, 0, 1)),
    ],
)
def test_a_job_as_a_task_of_docling_serve(tmp_path: Path, state: str, status: str, counts: tuple[int, int, int]):
    place = Place(tmp_path)
    job = dataclasses.replace(place.store.job(place.submit()), state=JobState(state), error="why")
    task = docling._described("task", job)
    meta = task["task_meta"]
    assert (task["task_id"], task["task_status"], meta["num_docs"]) == ("task", status, 1)
    assert (meta["num_processed"], meta["num_succeeded"], meta["num_failed"]) == counts
    assert task.get("error_message") == ("why" if counts[2] else None)


def test_what_a_key_is_told_of_itself(make_service: Made):
    service = make_service("expires=2099-01-31 pages=5/day")
    service.allowance.spend(ME, "pages", 2)

    def usage(client: str) -> dict[str, Any]:
        state = SimpleNamespace(keys=service.allowance._ring, allowance=service.allowance)
        request: Any = SimpleNamespace(app=SimpleNamespace(state=state), state=SimpleNamespace(key_id=client))
        return json.loads(bytes(asyncio.run(service_info.usage(request)).body))["result"]

    mine = usage(ME)
    assert (mine["name"], mine["expires"]) == ("me", "2099-01-31T00:00:00Z")
    assert [(quota["name"], quota["limit"], quota["used"]) for quota in mine["quotas"]] == [("pages/day", 5, 2)]
    assert usage("") == {"name": None, "expires": None, "quotas": []}
