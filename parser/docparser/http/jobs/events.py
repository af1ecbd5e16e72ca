# SPDX-License-Identifier: Apache-2.0
"""``GET /api/v2/ocr/jobs/{id}/events``: a job's progress as server-sent events.

A ``page`` event reports a page that changed, a ``job`` event the job's state after that. An event's id is the
number of the change, so a client that comes back with ``Last-Event-ID`` gets what it missed, from any process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from typing import cast

from fastapi import APIRouter, Request, Response

from docparser.clients.shares import ConcurrencyLimit
from docparser.contract.job_answers import Job, PageEvent, PageStateName
from docparser.errors import InvalidJob, JobNotFound, StorageUnavailable
from docparser.http.answers import EVENT_STREAM, Stream
from docparser.http.gate import holder_of
from docparser.http.jobs.openapi import NO_JOB
from docparser.http.jobs.requests import JobRoute, identity, jobs_of
from docparser.http.openapi import as_text, shows
from docparser.http.paths import JOBS
from docparser.jobs.result import describe
from docparser.jobs.service import JobService
from docparser.jobs.storage.states import Step

router = APIRouter(prefix=JOBS, tags=["jobs"], route_class=JobRoute, default_response_class=Response)

HEARTBEAT_S = 10.0  # between two comments: proxies keep the connection, and a client that left is noticed
AWAY_S = 1.0  # between two looks for a job store that cannot be used
EVENT_ID = re.compile(r"-1|[0-9]{1,18}")  # what the database can compare: 64 bits


LAST_EVENT = {
    "parameters": [
        {
            "name": "Last-Event-ID",
            "in": "header",
            "description": "The `id` of the last event that came; what came after it is sent.",
            "schema": {"type": "string", "pattern": f"^({EVENT_ID.pattern})$", "maxLength": 18},
        }
    ]
}
EVENTS = as_text(
    "Events `page` (`data`: PageEvent) and `job` (`data`: Job). The `id` of an event is the number of the change.",
    PageEvent,
    Job,
)


@router.get(
    "/{job_id}/events",
    operation_id="followJob",
    summary="Follow a job",
    responses={200: shows("Progress.", other={"text/event-stream": EVENTS}), 404: NO_JOB},
    openapi_extra=LAST_EVENT,
)
async def events(job_id: str, request: Request) -> Stream:
    """Progress as `text/event-stream`, until the job has ended or is removed."""
    jobs = jobs_of(request)
    owner, _ = identity(request)
    after = _last_event(request)
    await asyncio.to_thread(jobs.store.job, job_id, owner)  # 404 before the stream begins
    streams: ConcurrencyLimit = request.app.state.event_streams
    place = contextlib.ExitStack()
    place.enter_context(streams.taken(holder_of(request.scope)))
    return Stream(_stream(jobs, job_id, owner, after), place.close, "text/event-stream", EVENT_STREAM)


def _last_event(request: Request) -> int:
    text = request.headers.get("last-event-id", "-1")
    if not EVENT_ID.fullmatch(text):
        raise InvalidJob(f"Last-Event-ID: {text[:40]!r} is not the id of an event of this stream")
    return int(text)


async def _stream(jobs: JobService, job_id: str, owner: str, after: int) -> AsyncIterator[bytes]:
    with jobs.changes.watching() as changed:
        last = None
        while True:
            changed.clear()
            try:
                job, counts, steps, after = await asyncio.to_thread(jobs.store.look, job_id, owner, after)
            except StorageUnavailable:  # it comes back, and the job with it
                yield b": the job store is away\n\n"
                await asyncio.sleep(AWAY_S)
                continue
            except JobNotFound:  # removed meanwhile: who connects again gets 404
                return
            state = describe(job, counts, None, None)
            if not job.state.ended and jobs.runner.paused_by:
                state["docparser"]["waitsFor"] = jobs.runner.paused_by
            pages = b"".join(_event("page", after, _page(step)) for step in steps)
            if pages or state != last:
                yield pages + _event("job", after, state)
                last = state
            if job.state.ended:
                return
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await changed.wait()
            except TimeoutError:
                yield b": still here\n\n"


def _page(step: Step) -> PageEvent:
    page: PageEvent = {"page": step.number, "state": cast(PageStateName, str(step.state))}
    if step.width is not None:
        page["width"] = step.width
    if step.height is not None:
        page["height"] = step.height
    if step.error is not None:
        page["error"] = step.error
    return page


def _event(name: str, identity: int, data: PageEvent | Job) -> bytes:
    return f"id: {identity}\nevent: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode("utf-8", "replace")
