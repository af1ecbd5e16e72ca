# SPDX-License-Identifier: Apache-2.0
"""Results: by signed address without a key (JSONL, pictures), and by job id in other formats; and pages of a job's
document as they came."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import mimetypes
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from docparser.contract.answers import ModelsInUse, PageReport, ParsedDocument, Report
from docparser.contract.job_answers import JobLine
from docparser.convert.names import FORMATS, Format, disposition
from docparser.documents.page import DocumentLimits
from docparser.documents.spool import Document
from docparser.errors import JobNotFound, NoResultYet, StorageDamaged
from docparser.http.answers import SAFE, InFormat, converted, in_formats, report_headers, sent, wait_for
from docparser.http.gate import holder_of
from docparser.http.jobs.openapi import EXPIRED, NO_JOB, NO_RESULT
from docparser.http.jobs.requests import JobRoute, base_url, identity, jobs_of, result_url
from docparser.http.openapi import BINARY, as_text, shows
from docparser.http.paths import JOBS
from docparser.jobs.links import PREFIX
from docparser.jobs.pages import FROZEN, NAME
from docparser.jobs.result import data_info
from docparser.jobs.service import JobService
from docparser.jobs.step_work import GONE, pages_of_job
from docparser.jobs.storage.files import PAGE_FILE, Pictures
from docparser.jobs.storage.states import Job, Step, StepState
from docparser.sandbox.offload import Offload
from docparser.sandbox.process import Bounds

signed = APIRouter(prefix=PREFIX, tags=["jobs"], route_class=JobRoute, default_response_class=Response)
router = APIRouter(prefix=JOBS, tags=["jobs"], route_class=JobRoute, default_response_class=Response)

CONVERTING: dict[int | str, dict[str, Any]] = {
    200: in_formats("The pages that have ended, in the format that was asked for.", ParsedDocument),
    404: NO_JOB,
    409: NO_RESULT,
    413: {"description": "The conversion exceeds a bound of this service; msg names it. JSON lines have the result."},
    422: {"description": "The result is not available in this format."},
    504: {"description": "The conversion took longer than this service allows."},
}
LINES = as_text("A JobLine for each page that has ended.", JobLine)
PICTURES = {"image/jpeg": BINARY, "image/png": BINARY}
KEPT_S = 3600  # how long a browser may keep a picture, if its address lives that long
PAGES = "Document-Pages"
LONGEST_LINE = 100  # bytes; it says the number of pages
UNDRAWN: dict[int | str, dict[str, Any]] = {
    404: NO_JOB,
    413: {"description": "The page takes more than this service allows; msg names the bound."},
    504: {"description": "Drawing the page took longer than this service allows."},
}


@router.get(
    "/{job_id}/originals/{number}",
    operation_id="getJobOriginal",
    summary="A page as it came",
    responses={200: shows("The page.", other={"image/jpeg": BINARY}, headers=(PAGES,)), **UNDRAWN},
)
async def original(job_id: str, number: int, request: Request) -> Response:
    """Page `number` of the document (from 1) as a picture, also before it is read; one of more than 40 million pixels
    at a half or a third of its size. The header `Document-Pages` has the number of pages."""
    jobs = jobs_of(request)
    job = await asyncio.to_thread(jobs.store.job, job_id, identity(request)[0])
    settings = request.app.state.settings

    async def drawn() -> BinaryIO:
        with contextlib.ExitStack() as stack:
            try:
                path = await asyncio.to_thread(stack.enter_context, jobs.files.document(job.id))
            except FileNotFoundError:
                raise JobNotFound(GONE) from None
            limits = dataclasses.asdict(DocumentLimits.of(settings))
            args = {"path": str(path), "format": job.format, "number": number, "limits": limits}
            offload: Offload = request.app.state.offload
            bounds = Bounds.of(settings)
            what, client = f"page {number}", holder_of(request.scope)
            return await offload.run("draw", args, lambda _: [str(path)], bounds, what, client)

    output = await wait_for(request, drawn())
    pages = int(json.loads(output.readline(LONGEST_LINE))["pages"])
    headers = {PAGES: str(pages), "Cache-Control": f"private, max-age={KEPT_S}"}
    return sent(output, "image/jpeg", headers)


@signed.head("/{job_id}/{permission}/result.jsonl", include_in_schema=False)
@signed.get(
    "/{job_id}/{permission}/result.jsonl",
    operation_id="getJobLines",
    summary="A job's result by its address",
    responses={200: shows("JSON lines.", other={"application/x-ndjson": LINES}), 403: EXPIRED, 404: NO_JOB},
)
async def jsonl(job_id: str, permission: str, request: Request) -> Response:
    """The pages that have ended, one per line; `docparser.partial` is true while the job runs."""
    jobs = jobs_of(request)
    await asyncio.to_thread(jobs.links.check, job_id, permission)
    job, _, steps, _ = await asyncio.to_thread(jobs.store.look, job_id)
    base = base_url(request) + jobs.links.path_with(permission, job_id, "")
    models = await request.app.state.readiness.models_in_use()
    # Nothing is read for a HEAD, whose answer has no body.
    lines = jobs.results.lines(job, steps if request.method == "GET" else [], base, models)
    return StreamingResponse(lines, media_type="application/x-ndjson", headers=SAFE | {"Cache-Control": "no-store"})


@signed.head("/{job_id}/{permission}/pages/{number}/{name}", include_in_schema=False)
@signed.get(
    "/{job_id}/{permission}/pages/{number}/{name}",
    operation_id="getJobPicture",
    summary="A picture by its address",
    responses={200: shows("The picture.", other=PICTURES), 403: EXPIRED, 404: NO_JOB},
)
async def picture(job_id: str, permission: str, number: int, name: str, request: Request) -> Response:
    """A picture of a page."""
    jobs = jobs_of(request)
    left = await asyncio.to_thread(jobs.links.check, job_id, permission)
    content = await asyncio.to_thread(_picture, jobs, job_id, number, name)
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(content, media_type=kind, headers=SAFE | {"Cache-Control": f"private, max-age={min(left, KEPT_S)}"})


def _picture(jobs: JobService, job_id: str, number: int, name: str) -> bytes:
    _, step = jobs.store.page(job_id, number)
    if step is None or step.folder is None or step.state in (StepState.QUEUED, StepState.RUNNING):
        raise JobNotFound(f"page {number} has no result")
    if NAME.fullmatch(name) and not name.startswith(FROZEN) and name != PAGE_FILE:
        try:
            return jobs.files.page_file(job_id, step.folder, step.sha256, name)
        except FileNotFoundError:
            pass  # said below
        except StorageDamaged as exc:
            if step.state is StepState.DONE and jobs.damage.found(job_id, step, str(exc)):
                return _picture(jobs, job_id, number, name)  # its step changed meanwhile
            raise
    raise JobNotFound(f"page {number} has no picture {name[:80]!r}")


@router.get(
    "/{job_id}/pages/{number}",
    operation_id="getJobPage",
    summary="One page of a job",
    responses={200: shows("The page.", JobLine), 404: NO_JOB, 409: NO_RESULT},
)
async def page(job_id: str, number: int, request: Request) -> Response:
    """One page that has ended, as a line of the JSONL without `dataInfo`; also while the job runs."""
    jobs = jobs_of(request)
    job, step = await asyncio.to_thread(jobs.store.page, job_id, number, identity(request)[0])
    if step is None or step.state not in (StepState.DONE, StepState.FAILED):
        raise NoResultYet(f"page {number} of this job has no result" + ("" if job.state.ended else " yet"))
    base = await asyncio.to_thread(result_url, request, job.id, "")
    models = await request.app.state.readiness.models_in_use()
    found, _ = await asyncio.to_thread(jobs.results.page, job, step, base, models)
    content = await asyncio.to_thread(json.dumps, {"result": found}, ensure_ascii=False)
    headers = SAFE | {"Cache-Control": "no-store"}
    return Response(content.encode("utf-8", "replace"), media_type="application/json", headers=headers)


@router.get("/{job_id}/result", operation_id="getJobResult", summary="A job's result in a format", responses=CONVERTING)
async def result(
    job_id: str,
    request: Request,
    wanted: Annotated[InFormat, Query()],
) -> Response:
    """The pages that have ended, in a format: md, json, html, xlsx, docx, pdf, chunks, zip."""
    jobs = jobs_of(request)
    job, counts, steps, _ = await asyncio.to_thread(jobs.store.look, job_id, identity(request)[0])
    if not counts.ended:
        raise NoResultYet(job.error or "no page of this job has a result yet")
    models = await request.app.state.readiness.models_in_use()
    if wanted.format == "json":
        base = await asyncio.to_thread(result_url, request, job.id, "")
        named = {"Content-Disposition": disposition(job.file_name, wanted.format), "Cache-Control": "no-store"}
        pieces = stored_result(jobs, job, steps, models, base)
        return StreamingResponse(pieces, media_type=FORMATS[wanted.format], headers=SAFE | named)
    how = wanted.how(
        join_tables=job.options.get("mergeTables") is not False,
        outline=job.options.get("relevelTitles") is not False,
    )

    async def convert() -> Response:
        async with local_files(jobs, job, wanted.format) as (source, pictures):
            files: dict[str, str] = {}
            reports: list[PageReport] = []
            pieces = stored_answer(jobs, job, steps, models, pictures, files, reports)
            answer = await converted(
                request, pieces, counts.ended, job.file_name, wanted.format, source, how, files=files.values()
            )
            answer.headers.update(report_headers({"partial": bool(reports), "pages": reports}, _missing(job, steps)))
            return answer

    return await wait_for(request, convert())


@contextlib.asynccontextmanager
async def local_files(jobs: JobService, job: Job, format: Format) -> AsyncIterator[tuple[Document, Pictures]]:
    """What a child process opens, as files of this machine: the document for those formats that show it, and
    pictures."""
    with contextlib.ExitStack() as stack:
        path = Path()
        if format == "pdf":
            with contextlib.suppress(FileNotFoundError):  # the conversion says that it is missing
                path = await asyncio.to_thread(stack.enter_context, jobs.files.document(job.id))
        pictures = await asyncio.to_thread(stack.enter_context, jobs.files.pictures())
        try:
            yield Document(str(path), job.format), pictures
        finally:
            await asyncio.to_thread(stack.close)


def stored_answer(
    jobs: JobService,
    job: Job,
    steps: list[Step],
    models: ModelsInUse,
    pictures: Pictures,
    files: dict[str, str],
    reports: list[PageReport] | None = None,
) -> Iterator[bytes]:
    """The pages that have ended, as an answer of /layout-parsing whose pictures are keys of ``files``; in pieces. Fills
    ``files``, and ``reports`` with what there is to say of pages."""
    yield b'{"result": '
    yield from stored_result(jobs, job, steps, models, "", reports, pictures, files)
    told = {"files": files, "numbers": [step.number for step in _ended(steps)], "missing": _missing(job, steps)}
    yield f", {json.dumps(told)[1:]}".encode("utf-8", "replace")


def stored_result(
    jobs: JobService,
    job: Job,
    steps: list[Step],
    models: ModelsInUse,
    base: str,
    reports: list[PageReport] | None = None,
    pictures: Pictures | None = None,
    files: dict[str, str] | None = None,
) -> Iterator[bytes]:
    """The pages that have ended, as the ``result`` of an answer of /layout-parsing, in pieces. ``base`` begins
    the addresses of pictures. With ``pictures``, ``files`` gets each as a file, by its path."""
    reports = [] if reports is None else reports
    yield b'{"layoutParsingResults": ['
    for number, step in enumerate(_ended(steps)):
        piece, copies = jobs.results.page(job, step, base, models, pictures)
        entries = (json.dumps(entry, ensure_ascii=False) for entry in piece["layoutParsingResults"])
        yield ((", " if number else "") + ", ".join(entries)).encode("utf-8", "replace")
        reports += [report for report in piece["docparser"]["pages"] if len(report) > 1]
        models = piece["docparser"]["models"]
        if files is not None:
            files.update({f"pages/{step.number}/{name}": str(path) for name, path in copies.items()})
    lacking = any("error" in report or "blocks" in report for report in reports)
    report: Report = {"models": models, "partial": lacking or job.state.incomplete, "pages": reports}
    rest = json.dumps({"dataInfo": data_info(job, steps), "docparser": report}, ensure_ascii=False)
    yield f"], {rest[1:]}".encode("utf-8", "replace")


def _missing(job: Job, steps: list[Step]) -> list[int]:
    """The pages that the job is about and that have not ended; those of a cancelled job have no steps."""
    asked = pages_of_job(job.page_ranges, job.document_pages) if job.document_pages else [one.number for one in steps]
    return sorted({*asked} - {step.number for step in _ended(steps)})


def _ended(steps: list[Step]) -> list[Step]:
    return [step for step in steps if step.state in (StepState.DONE, StepState.FAILED)]
