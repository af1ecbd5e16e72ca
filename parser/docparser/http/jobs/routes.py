# SPDX-License-Identifier: Apache-2.0
"""``/api/v2/ocr/jobs``, the hosted job API with our additions (cancel, retry, progress), and ``GET /capacity``."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from docparser.contract import job_answers as answers
from docparser.contract.job_answers import BatchAnswer, CancelledAnswer, JobAnswer, ListedAnswer, RetriedAnswer
from docparser.contract.schemas import MAX_ERRORS, MAX_PART
from docparser.contract.service_answers import Capacity, CapacityAnswer
from docparser.errors import DataDirFull, NoOwner, StorageUnavailable
from docparser.http.errors import success
from docparser.http.examples import RUNNING
from docparser.http.jobs.openapi import ACCEPTED, BODY, DISK_FULL, KEY_REUSED, NO_JOB, NO_KEYS, QUEUE_FULL
from docparser.http.jobs.requests import (
    JobRoute,
    Removal,
    Wanted,
    answer,
    identity,
    jobs_of,
    keep,
    read_submission,
    result_url,
)
from docparser.http.openapi import shows
from docparser.http.paths import JOBS
from docparser.jobs.result import API_STATES, describe, describe_told
from docparser.jobs.service import JobService
from docparser.jobs.storage.states import Counts, Job, JobState, Step

router = APIRouter(prefix=JOBS, tags=["jobs"], route_class=JobRoute, default_response_class=Response)
capacity_router = APIRouter(tags=["jobs"], route_class=JobRoute, default_response_class=Response)

NO_LIST = (
    "This service has no keys, so it cannot tell your jobs from those of others, and lists none. Ask for jobs by their "
    "ids (jobId), or for a batch by its batchId (GET /api/v2/ocr/jobs/batch/{batchId}). With keys it lists the "
    "jobs of the key."
)


@router.post(
    "",
    operation_id="submitJob",
    summary="Submit a job",
    responses={200: ACCEPTED, 422: KEY_REUSED, 429: QUEUE_FULL, 507: DISK_FULL},
    openapi_extra=BODY,
)
async def submit(request: Request) -> Response:
    """Submits a document. It is on the disk before the answer; `Idempotency-Key` makes a repeated request harmless."""
    jobs = jobs_of(request)
    job_id, submitted = await keep(request, read_submission(request, jobs.model, request.app.state.intake))
    told = [*jobs.notes(submitted.model, submitted.options), *submitted.notes]
    in_address = list(request.query_params)[:MAX_ERRORS]
    told += [f"{name[:MAX_PART]}: has no effect in the address; send it in the body." for name in in_address]
    return answer({"jobId": job_id, "docparser": {"model": jobs.model.served_name, "notes": told}})


@router.get(
    "",
    operation_id="listJobs",
    summary="The jobs of the key",
    responses={200: shows("Jobs, newest first.", ListedAnswer), 403: NO_KEYS},
)
async def listed(request: Request, wanted: Annotated[Wanted, Query()]) -> Response:
    """The jobs of this key, newest first: `jobs`, and `nextCursor` if there are older ones, else null. Without keys
    there is no list, but for jobs that are named by `jobId`: whoever knows a job's id may see the job."""
    jobs = jobs_of(request)
    owner, _ = identity(request)
    if not owner and not wanted.jobId:
        raise NoOwner(NO_LIST)
    return answer(await asyncio.to_thread(_listed, jobs, request, owner, wanted))


def _listed(jobs: JobService, request: Request, owner: str, wanted: Wanted) -> answers.ListedJobs:
    states = [known for known in JobState if API_STATES[known] in wanted.state]
    before = wanted.before()
    found = jobs.store.newest(
        owner, wanted.limit + 1, before=before, states=states, batch_id=wanted.batchId, ids=wanted.jobId
    )
    last = found[wanted.limit - 1][0] if len(found) > wanted.limit else None
    return {
        "jobs": _described(request, found[: wanted.limit]),
        "nextCursor": f"{last.created!r}-{last.id}" if last else None,
    }


def _described(request: Request, found: list[tuple[Job, Counts]]) -> list[answers.Job]:
    return [_described_one(request, job, counts, None) for job, counts in found]


def _described_one(request: Request, job: Job, counts: Counts, steps: list[Step] | None) -> answers.Job:
    data = describe(job, counts, steps, result_url(request, job.id) if job.state is JobState.DONE else None)
    if not job.state.ended and (waits_for := jobs_of(request).runner.paused_by):
        data["docparser"]["waitsFor"] = waits_for
    return data


@router.get(
    "/batch/{batch_id:path}",  # a batch's id may have slashes
    operation_id="getBatch",
    summary="The jobs of a batch",
    responses={200: shows("Each job with its state.", BatchAnswer), 404: NO_JOB},
)
async def batch(batch_id: str, request: Request) -> Response:
    """All jobs that were submitted with this `batchId`."""
    jobs = jobs_of(request)
    found = await asyncio.to_thread(jobs.store.batch, batch_id, identity(request)[0])
    items = await asyncio.to_thread(_described, request, found)
    return answer({"batchId": batch_id, "extractResult": items})


@router.get(
    "/{job_id}",
    operation_id="getJob",
    summary="A job's state",
    responses={200: shows("The job.", JobAnswer, RUNNING), 404: NO_JOB},
)
async def state(job_id: str, request: Request) -> Response:
    """A job's state and progress; `resultUrl.jsonUrl` once it is done, `docparser.partialUrl` as soon as a page is."""
    jobs = jobs_of(request)
    return answer(await asyncio.to_thread(_state, jobs, request, job_id))


def _state(jobs: JobService, request: Request, job_id: str) -> answers.Job:
    job, counts, steps, _ = jobs.store.look(job_id, identity(request)[0])
    data = _described_one(request, job, counts, steps)
    data["docparser"]["model"] = jobs.read_by(job, steps)
    data["docparser"]["notes"] = jobs.notes(job.model, job.options)
    if callback := describe_told(job, jobs.callbacks.told(job_id) if job.callback else None):
        data["docparser"]["callback"] = callback
    if counts.ended and job.state is not JobState.DONE:
        data["docparser"]["partialUrl"] = result_url(request, job_id)
    return data


@router.delete(
    "/{job_id}",
    operation_id="cancelJob",
    summary="Cancel a job",
    responses={200: shows("The job's state now.", CancelledAnswer), 404: NO_JOB, 507: DISK_FULL},
)
async def cancel(job_id: str, request: Request, wanted: Annotated[Removal, Query()]) -> Response:
    """Cancels a job that has not ended; an ended job stays as it is. `purge=true` also removes document and results
    now."""
    jobs = jobs_of(request)
    owner, _ = identity(request)
    job = await asyncio.to_thread(_cancel, jobs, job_id, owner, wanted.purge)
    return answer({"jobId": job_id, "state": API_STATES[job.state], "purged": wanted.purge})


def _cancel(jobs: JobService, job_id: str, owner: str, purge: bool) -> Job:
    job = jobs.store.cancel(job_id, owner)
    jobs.audit.record("job.cancelled", job=job_id, state=str(job.state))
    if job.state is JobState.CANCELLED and not purge:
        with contextlib.suppress(DataDirFull, StorageUnavailable, OSError):  # only a rebuilt database needs the mark
            jobs.files.mark_cancelled(job_id)
    if purge:
        jobs.purge(job_id, owner)
        jobs.audit.record("job.purged", job=job_id)
    return job


@router.post(
    "/{job_id}/retry",
    operation_id="retryJob",
    summary="Parse failed pages again",
    responses={
        200: shows("How many pages are parsed again.", RetriedAnswer),
        404: NO_JOB,
        429: QUEUE_FULL,
        507: DISK_FULL,
    },
)
async def retry(job_id: str, request: Request) -> Response:
    """Parses the failed pages of an ended job again, and only those. If opening or joining it failed, that is tried
    again too, and is no page."""
    jobs = jobs_of(request)
    again = await asyncio.to_thread(_retry, jobs, job_id, identity(request)[0])
    jobs.runner.wake()
    return answer({"jobId": job_id, "pages": again})


def _retry(jobs: JobService, job_id: str, owner: str) -> int:
    """Pages that are parsed again count again: they are work, whoever is to blame. Opening counts them itself."""
    again = jobs.store.retry(job_id, owner)
    pages = sum(number > 0 for number in again)
    if again:
        with contextlib.suppress(DataDirFull, StorageUnavailable, OSError):  # only a rebuilt database reads the marks
            jobs.files.forget_told(job_id)
    jobs.allowance.spend(owner, "pages", pages, force=True)
    jobs.audit.record("job.retried", job=job_id, pages=pages)
    return pages


@capacity_router.get(
    "/capacity",
    operation_id="getCapacity",
    summary="The queue",
    responses={200: shows("The queue of all parsers that share it.", CapacityAnswer)},
)
async def capacity(request: Request) -> Response:
    """`pages` and `jobs` of the queue that all processes share. `estimateSeconds` is the time until a page that is
    submitted now would be done if clients did not take turns, by the pages of the last five minutes; null if no page
    was finished."""
    jobs = jobs_of(request)
    settings = request.app.state.settings
    load = await asyncio.to_thread(jobs.store.load)
    rate = load.finished / load.window_s
    ahead = load.queued_pages + load.running_pages
    result: Capacity = {
        "pages": {"queued": load.queued_pages, "running": load.running_pages, "most": settings.max_queued_pages},
        "jobs": {"pending": load.pending_jobs, "running": load.running_jobs, "most": settings.max_queued_jobs},
        "pagesPerMinute": round(rate * 60, 1),
        "estimateSeconds": round((ahead + 1) / rate, 1) if rate else None,
        "accepting": load.queued_pages < settings.max_queued_pages
        and load.pending_jobs + load.running_jobs < settings.max_queued_jobs
        and not jobs.runner.paused_by,
        "waitsFor": jobs.runner.paused_by or None,
    }
    return JSONResponse(success(result))
