# SPDX-License-Identifier: Apache-2.0
"""Results: by signed address without a key (JSONL, pictures), and by job id in other formats."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Iterator

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, StreamingResponse

from docparser.convert.document import Document as ResultDocument
from docparser.convert.formats import FORMATS, Format, convert
from docparser.jobs.errors import JobNotFound, NoResultYet
from docparser.jobs.links import PREFIX
from docparser.jobs.pages import FROZEN, NAME
from docparser.jobs.result import data_info
from docparser.jobs.route import JobRoute
from docparser.jobs.routes import RESPONSES, jobs_of
from docparser.jobs.service import JobService, identity
from docparser.jobs.states import Job, Step, StepState

signed = APIRouter(prefix=PREFIX, tags=["jobs"], route_class=JobRoute)
router = APIRouter(prefix="/api/v2/ocr/jobs", tags=["jobs"], route_class=JobRoute)

# A result comes from a stranger's document: whatever a browser takes it for, nothing in it may run.
SAFE = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}


@signed.get("/{job_id}/{permission}/result.jsonl", responses=RESPONSES)
async def jsonl(job_id: str, permission: str, request: Request) -> Response:
    """The pages that have ended, one per line; `docparser.partial` says whether the job still runs."""
    jobs = jobs_of(request)
    jobs.links.check(job_id, permission)
    job, _, steps, _ = await asyncio.to_thread(jobs.store.look, job_id)
    return StreamingResponse(
        _lines(jobs, request, job, steps, await jobs.models.in_use()), media_type="application/x-ndjson", headers=SAFE
    )


def _lines(jobs: JobService, request: Request, job: Job, steps: list[Step], models: dict) -> Iterator[bytes]:
    base = jobs.result_url(request, job.id, "")
    return jobs.results.lines(job, steps, lambda name: base + name, models)


@signed.get("/{job_id}/{permission}/pages/{number}/{name}", responses=RESPONSES)
async def picture(job_id: str, permission: str, number: int, name: str, request: Request) -> Response:
    """A picture of a page."""
    jobs = jobs_of(request)
    jobs.links.check(job_id, permission)
    folder = await asyncio.to_thread(_folder, jobs, job_id, number)
    path = jobs.files.page_folder(job_id, folder) / name
    if not NAME.fullmatch(name) or name in (FROZEN, "page.json") or not path.is_file():
        raise JobNotFound(f"page {number} has no picture {name[:80]!r}")
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return FileResponse(path, media_type=kind, headers=SAFE | {"Cache-Control": "private, max-age=3600"})


def _folder(jobs: JobService, job_id: str, number: int) -> str:
    for step in jobs.store.look(job_id)[2]:
        if step.number == number and step.folder:
            return step.folder
    raise JobNotFound(f"page {number} has no result")


@router.get("/{job_id}/pages/{number}", responses=RESPONSES)
async def page(job_id: str, number: int, request: Request) -> Response:
    """One page that has ended, as a line of the JSONL; also while the job runs."""
    jobs = jobs_of(request)
    job, _, steps, _ = await asyncio.to_thread(jobs.store.look, job_id, identity(request)[0])
    step = next((step for step in steps if step.number == number), None)
    if step is None or step.state not in (StepState.DONE, StepState.FAILED):
        raise NoResultYet(f"page {number} of this job has no result" + ("" if job.state.ended else " yet"))
    lines = _lines(jobs, request, job, [step], await jobs.models.in_use())
    return Response(await asyncio.to_thread(lambda: b"".join(lines)), media_type="application/json", headers=SAFE)


@router.get("/{job_id}/result", responses=RESPONSES)
async def result(job_id: str, request: Request, format: Format = "md") -> Response:
    """The pages that have ended, in another format: md, json, html, xlsx, zip."""
    jobs = jobs_of(request)
    owner, _ = identity(request)
    return await asyncio.to_thread(_convert, jobs, job_id, owner, format, await jobs.models.in_use())


def _convert(jobs: JobService, job_id: str, owner: str, format: Format, models: dict) -> Response:
    job, counts, steps, _ = jobs.store.look(job_id, owner)
    if not counts.ended:
        raise NoResultYet(job.error or "no page of this job has a result yet")
    entries, reports, files = [], [], {}
    for step in steps:
        if step.state not in (StepState.DONE, StepState.FAILED):
            continue
        piece = jobs.results.page(job, step, str, models)
        entries += piece["layoutParsingResults"]
        reports += [report for report in piece["docparser"]["pages"] if len(report) > 1]
        models = piece["docparser"]["models"]
        if step.folder:
            pictures = jobs.files.page_folder(job_id, step.folder)
            files.update({f"pages/{step.number}/{path.name}": path for path in pictures.iterdir()})
    report = {"models": models, "partial": bool(reports) or not job.state.ended, "pages": reports}
    document = ResultDocument.of_job(job.file_name, entries, data_info(job, steps), report, files)
    content = convert(document, format)
    return Response(content, media_type=FORMATS[format], headers=SAFE | document.disposition(format))
