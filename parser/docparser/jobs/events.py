# SPDX-License-Identifier: Apache-2.0
"""``GET /api/v2/ocr/jobs/{id}/events``: a job's progress as server-sent events.

``page`` for each page that changed, ``job`` for the job's state after that. An event's id is the change's number: a
client that comes back with ``Last-Event-ID`` gets what it missed, from any process.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from docparser.jobs.errors import InvalidJob
from docparser.jobs.result import describe
from docparser.jobs.route import JobRoute
from docparser.jobs.routes import RESPONSES, jobs_of
from docparser.jobs.service import JobService, identity
from docparser.jobs.states import Step

router = APIRouter(prefix="/api/v2/ocr/jobs", tags=["jobs"], route_class=JobRoute)

BEAT_S = 10.0  # a comment, so that proxies keep the connection and a client that left is noticed
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@router.get("/{job_id}/events", responses=RESPONSES, response_class=StreamingResponse)
async def events(job_id: str, request: Request) -> StreamingResponse:
    """Progress as `text/event-stream`, until the job has ended."""
    jobs = jobs_of(request)
    owner, _ = identity(request)
    after = _last_event(request)
    await asyncio.to_thread(jobs.store.job, job_id, owner)  # 404 before the stream begins
    return StreamingResponse(_stream(jobs, job_id, owner, after), media_type="text/event-stream", headers=HEADERS)


def _last_event(request: Request) -> int:
    text = request.headers.get("last-event-id", "-1")
    try:
        return int(text)
    except ValueError:
        raise InvalidJob(f"Last-Event-ID: {text[:40]!r} is not the id of an event of this stream") from None


async def _stream(jobs: JobService, job_id: str, owner: str, after: int) -> AsyncIterator[bytes]:
    with jobs.changes.watching() as changed:
        last = None
        while True:
            changed.clear()
            job, counts, steps, after = await asyncio.to_thread(jobs.store.look, job_id, owner, after)
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
                await asyncio.wait_for(changed.wait(), BEAT_S)
            except TimeoutError:
                yield b": still here\n\n"


def _page(step: Step) -> dict:
    page = {"page": step.number, "state": str(step.state), "width": step.width, "height": step.height}
    return {key: value for key, value in {**page, "error": step.error}.items() if value is not None}


def _event(name: str, identity: int, data: dict) -> bytes:
    return f"id: {identity}\nevent: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode("utf-8", "replace")
