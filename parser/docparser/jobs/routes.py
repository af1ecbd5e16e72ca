# SPDX-License-Identifier: Apache-2.0
"""``/api/v2/ocr/jobs``: the hosted job API, and what is ours beside it (cancel, retry, progress)."""

from __future__ import annotations

import asyncio
import contextlib

from fastapi import APIRouter, Request, Response

from docparser.jobs import submission
from docparser.jobs.errors import StorageDamaged, StorageFull
from docparser.jobs.result import describe
from docparser.jobs.route import JobRoute, answer
from docparser.jobs.service import JobService, identity
from docparser.jobs.states import JobState

router = APIRouter(prefix="/api/v2/ocr/jobs", tags=["jobs"], route_class=JobRoute)

BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["model", "file"],
                    "properties": {
                        "model": {"type": "string"},
                        "file": {"type": "string", "format": "binary"},
                        "optionalPayload": {"type": "string", "description": "Options of /layout-parsing as JSON."},
                        "pageRanges": {"type": "string", "example": "2,4-6,9-"},
                        "batchId": {"type": "string"},
                    },
                }
            },
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["model", "fileUrl"],
                    "properties": {
                        "model": {"type": "string"},
                        "fileUrl": {"type": "string"},
                        "optionalPayload": {"type": "object"},
                        "pageRanges": {"type": "string"},
                        "batchId": {"type": "string"},
                    },
                }
            },
        },
    }
}
RESPONSES = {
    400: {"description": "A field is wrong; msg names it."},
    404: {"description": "There is no such job."},
    429: {"description": "The queue is full; Retry-After."},
    507: {"description": "The disk is full; Retry-After."},
}


def jobs_of(request: Request) -> JobService:
    return request.app.state.jobs


@router.post("", responses=RESPONSES, openapi_extra=BODY)
async def submit(request: Request) -> Response:
    """Takes a document in. It is on the disk before this answers; `Idempotency-Key` makes a repeated request harmless."""
    jobs = jobs_of(request)
    owner, flow = identity(request)
    await asyncio.to_thread(jobs.store.check_room)
    async with submission.read(request, jobs.served_model, jobs.urls) as submitted:
        job_id = await asyncio.to_thread(jobs.keep, submitted, owner, flow)
    jobs.runner.wake()
    return answer({"jobId": job_id})


@router.get("/batch/{batch_id}", responses=RESPONSES)
async def batch(batch_id: str, request: Request) -> Response:
    """All jobs that were submitted with this `batchId`."""
    jobs = jobs_of(request)
    found = await asyncio.to_thread(jobs.store.batch, batch_id, identity(request)[0])
    items = [
        describe(job, counts, None, jobs.result_url(request, job.id) if job.state is JobState.DONE else None)
        for job, counts in found
    ]
    return answer({"batchId": batch_id, "extractResult": items})


@router.get("/{job_id}", responses=RESPONSES)
async def state(job_id: str, request: Request) -> Response:
    """The job's state and progress; `resultUrl.jsonUrl` once it is done, `docparser.partialUrl` as soon as a page is."""
    jobs = jobs_of(request)
    return answer(await asyncio.to_thread(_state, jobs, request, job_id))


def _state(jobs: JobService, request: Request, job_id: str) -> dict:
    job, counts, steps, _ = jobs.store.look(job_id, identity(request)[0])
    done = job.state is JobState.DONE
    data = describe(job, counts, steps, jobs.result_url(request, job_id) if done else None)
    if counts.ended and not done:
        data["docparser"]["partialUrl"] = jobs.result_url(request, job_id)
    if not job.state.ended and jobs.runner.paused_by:
        data["docparser"]["waitsFor"] = jobs.runner.paused_by
    return data


@router.delete("/{job_id}", responses=RESPONSES)
async def cancel(job_id: str, request: Request, purge: bool = False) -> Response:
    """Cancels a job that has not ended; else changes nothing. `purge=true` also removes document and results now."""
    jobs = jobs_of(request)
    owner, _ = identity(request)
    job = await asyncio.to_thread(_cancel, jobs, job_id, owner, purge)
    return answer({"jobId": job_id, "state": describe_state(job.state), "purged": purge})


def _cancel(jobs: JobService, job_id: str, owner: str, purge: bool):
    job = jobs.store.cancel(job_id, owner)
    if job.state is JobState.CANCELLED and not purge:
        with contextlib.suppress(StorageFull, StorageDamaged, OSError):  # only a rebuilt database would miss it
            jobs.files.mark_cancelled(job_id)
    if purge:
        jobs.store.remove(job_id, owner)
        jobs.files.remove(job_id)
    return job


def describe_state(state: JobState) -> str:
    return "failed" if state is JobState.CANCELLED else str(state)


@router.post("/{job_id}/retry", responses=RESPONSES)
async def retry(job_id: str, request: Request) -> Response:
    """Parses the failed pages of a job that has ended again, and only those."""
    jobs = jobs_of(request)
    again = await asyncio.to_thread(jobs.store.retry, job_id, identity(request)[0])
    jobs.runner.wake()
    return answer({"jobId": job_id, "pages": again})
