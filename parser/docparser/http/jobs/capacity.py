# SPDX-License-Identifier: Apache-2.0
"""``GET /capacity``: how much waits and runs, and how long a new page would take."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from docparser.http.errors import new_log_id
from docparser.http.jobs.clients import jobs_of
from docparser.http.jobs.envelope import JobRoute

router = APIRouter(tags=["jobs"], route_class=JobRoute)


@router.get("/capacity")
async def capacity(request: Request) -> Response:
    """`pages` and `jobs` of the queue that all processes share. `estimateSeconds` is the time until a page that is
    submitted now would be done if clients did not take turns, by the pages of the last five minutes; null if no page
    was finished."""
    jobs = jobs_of(request)
    settings = request.app.state.settings
    load = await asyncio.to_thread(jobs.store.load)
    rate = load.finished / load.window_s
    ahead = load.queued_pages + load.running_pages
    result = {
        "pages": {"queued": load.queued_pages, "running": load.running_pages, "most": settings.max_queued_pages},
        "jobs": {"pending": load.pending_jobs, "running": load.running_jobs, "most": settings.max_queued_jobs},
        "pagesPerMinute": round(rate * 60, 1),
        "estimateSeconds": round((ahead + 1) / rate, 1) if rate else None,
        "accepting": load.queued_pages < settings.max_queued_pages
        and load.pending_jobs + load.running_jobs < settings.max_queued_jobs
        and not jobs.runner.paused_by,
        "waitsFor": jobs.runner.paused_by or None,
    }
    return JSONResponse({"logId": new_log_id(), "errorCode": 0, "errorMsg": "Success", "result": result})
