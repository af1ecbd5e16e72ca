# SPDX-License-Identifier: Apache-2.0
"""docling-serve's API: ``/v1/convert/source`` and ``/file``, at once and as tasks, which are jobs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any, BinaryIO

from fastapi import APIRouter, Query, Request, Response
from pydantic import ValidationError
from starlette.datastructures import UploadFile

from docparser.contract.docling import (
    TASK,
    DoclingAnswer,
    DoclingOptions,
    DoclingRequest,
    DoclingTask,
    options_of_form,
    target_refusal,
)
from docparser.contract.schemas import describe_errors
from docparser.documents.intake import DocumentIntake
from docparser.documents.spool import Document
from docparser.errors import InvalidRequest, JobNotFound, NoResultYet
from docparser.http.answers import TOO_LARGE, from_child, read_as, wait_for
from docparser.http.errors import SafeJSON
from docparser.http.examples import DOCLING_REQUEST
from docparser.http.jobs.openapi import QUEUE_FULL
from docparser.http.jobs.requests import identity, jobs_of, keep
from docparser.http.jobs.results import local_files, stored_answer
from docparser.http.openapi import BINARY, TOOK_TOO_LONG, example_body, form_content, form_parts, shows
from docparser.http.strict_reading import StrictRoute, body_of, document_in, field, form_of, named, source_of
from docparser.jobs.storage.states import Counts, Job, JobState, Step
from docparser.jobs.submission import check_submission

LONGEST_WAIT_S = 60.0
STATES = {JobState.PENDING: "pending", JobState.RUNNING: "started", JobState.DONE: "success"}  # else failure
# Words that docling's client looks for.
NO_TASK = "Task not found."
NO_RESULT = "Task result not found. Please wait for a completion status."


router = APIRouter(prefix="/v1/convert", tags=["docling"], route_class=StrictRoute, default_response_class=Response)
form_router = APIRouter(prefix="/v1", tags=["docling"], default_response_class=Response)

READ: dict[int | str, dict[str, Any]] = {
    200: shows("The document.", DoclingAnswer),
    504: TOOK_TOO_LONG,
}
KEPT: dict[int | str, dict[str, Any]] = {
    200: shows("The task.", DoclingTask),
    429: QUEUE_FULL,
    507: {"description": "There is no room for another task's files."},
}
TASKLESS = {"description": "There is no such task, or it is another key's."}
JSON_EXAMPLE = example_body(DOCLING_REQUEST)
FORM = {
    "requestBody": {
        "required": True,
        "content": form_content(
            ["files"],
            files=BINARY | {"description": "One document."},
            **form_parts(DoclingOptions),
            target_type={"type": "string", "enum": ["inbody"]},
        ),
    }
}


@router.post(
    "/source", operation_id="convertSource", summary="Read by docling's API", responses=READ, openapi_extra=JSON_EXAMPLE
)
async def source(body: DoclingRequest, request: Request) -> Response:
    """Reads a document that the request holds or names."""
    _check(body.options, body.target.kind)
    document = document_in(request, *source_of(body.source))
    return await _read(request, document, body.options, body.file_name)


@router.post(
    "/source/async",
    operation_id="convertSourceAsync",
    summary="Have a document read",
    responses=KEPT,
    openapi_extra=JSON_EXAMPLE,
)
async def source_async(body: DoclingRequest, request: Request) -> Response:
    """Makes a task of it: a job."""
    _check(body.options, body.target.kind)
    where, text = source_of(body.source)
    with named(where):
        async with _intake(request).opened(field(request, text), body_of(request).charge) as content:
            return await _submitted(request, content, body.options, body.file_name)


@form_router.post(
    "/convert/file", operation_id="convertFile", summary="Read a file", responses=READ, openapi_extra=FORM
)
async def file(request: Request) -> Response:
    """Reads an uploaded file."""
    async with _uploaded(request) as (content, options, name):
        document = _intake(request).from_upload(content)
        return await _read(request, document, options, name)


@form_router.post(
    "/convert/file/async",
    operation_id="convertFileAsync",
    summary="Have a file read",
    responses=KEPT,
    openapi_extra=FORM,
)
async def file_async(request: Request) -> Response:
    """Makes a task of it: a job."""
    async with _uploaded(request) as (content, options, name):
        return await _submitted(request, content, options, name)


@form_router.get(
    "/status/poll/{task_id}",
    operation_id="pollTask",
    summary="A task's state",
    responses={200: shows("The task.", DoclingTask), 404: TASKLESS},
)
async def poll(
    task_id: str,
    request: Request,
    wait: Annotated[float, Query(ge=0, allow_inf_nan=False, description="Seconds until it has ended, at most.")] = 0,
) -> Response:
    """The task's state, at once or as soon as it has ended."""
    job_id, _, _ = _task(task_id)
    jobs, clock = jobs_of(request), asyncio.get_running_loop().time
    until = clock() + min(wait, LONGEST_WAIT_S)
    with jobs.changes.watching() as changed:
        while True:
            changed.clear()
            job, _, _ = await _look(request, job_id)
            if job.state.ended or clock() >= until or await request.is_disconnected():
                return SafeJSON(_described(task_id, job))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await changed.wait()


@form_router.get(
    "/result/{task_id}",
    operation_id="getTaskResult",
    summary="A task's result",
    responses={
        200: shows("The document.", DoclingAnswer),
        404: {"description": "There is no such task, or it has no result: it has not ended, or failed."},
        504: {"description": "Writing it took longer than this service allows."},
    },
)
async def result(task_id: str, request: Request) -> Response:
    """The document of a task that has ended, in the formats that it was asked for."""
    job_id, formats, embed = _task(task_id)
    jobs = jobs_of(request)
    job, counts, steps = await _look(request, job_id)
    if job.state is not JobState.DONE:
        raise NoResultYet(NO_RESULT)
    seconds = round((job.finished or job.created) - (job.started or job.created), 3)
    args = {"name": job.file_name, "formats": formats, "embed": embed, "seconds": seconds}
    models = await request.app.state.readiness.models_in_use()

    async def convert() -> Response:
        async with local_files(jobs, job, "json") as (_, pictures):
            files: dict[str, str] = {}
            pieces = stored_answer(jobs, job, steps, models, pictures, files)
            return await from_child(
                request, "docling", args, pieces, counts.ended, TOO_LARGE, "application/json", files=files.values()
            )

    return await wait_for(request, convert())


def _check(options: DoclingOptions, target: str) -> None:
    if refusal := options.refusal() or target_refusal(target):
        raise InvalidRequest(refusal)


def _intake(request: Request) -> DocumentIntake:
    return request.app.state.intake


@contextlib.asynccontextmanager
async def _uploaded(request: Request) -> AsyncIterator[tuple[BinaryIO, DoclingOptions, str]]:
    """The file, the options, and the file's name. Raises InvalidRequest."""
    async with form_of(request, max_fields=200) as form:
        file = form.get("files")
        if not isinstance(file, UploadFile):
            raise InvalidRequest("files: missing; send multipart/form-data with one part `files` that has a filename")
        fields: dict[str, list[str]] = {}
        for name, value in form.multi_items():
            if isinstance(value, str):
                fields.setdefault(name, []).append(value)
        try:
            options = options_of_form(fields)
        except ValidationError as exc:
            raise InvalidRequest(describe_errors(exc.errors())) from None
        _check(options, fields.get("target_type", ["inbody"])[-1])
        with named("files"):
            yield file.file, options, file.filename or "document"


async def _read(
    request: Request, document: contextlib.AbstractAsyncContextManager[Document], options: DoclingOptions, name: str
) -> Response:
    args = {"name": name, "formats": options.formats, "embed": options.embed}
    return await read_as(request, document, options.reading(), "docling", args, options.selected)


async def _submitted(request: Request, content: BinaryIO, options: DoclingOptions, name: str) -> Response:
    served = jobs_of(request).model
    fields = {
        "model": served.served_name,
        "optionalPayload": options.reading(),
        "pageRanges": options.page_ranges(),
    }
    submission = await asyncio.to_thread(
        check_submission, fields, content, file_name=name, idempotency_key=None, served=served
    )
    job_id, _ = await keep(request, contextlib.nullcontext(submission))
    job, _, _ = await _look(request, job_id)
    return SafeJSON(_described(options.task(job_id), job))


def _task(task_id: str) -> tuple[str, list[str], bool]:
    """The job's id, the formats, and whether pictures are embedded. Raises JobNotFound."""
    match = TASK.fullmatch(task_id)
    if match is None:
        raise JobNotFound(NO_TASK)
    return match[1], match[2].split("."), match[3] is not None


async def _look(request: Request, job_id: str) -> tuple[Job, Counts, list[Step]]:
    """Raises JobNotFound."""
    try:
        return (await asyncio.to_thread(jobs_of(request).store.look, job_id, identity(request)[0]))[:3]
    except JobNotFound:
        raise JobNotFound(NO_TASK) from None


def _described(task_id: str, job: Job) -> DoclingTask:
    succeeded, failed = job.state is JobState.DONE, job.state.ended and job.state is not JobState.DONE
    task: DoclingTask = {
        "task_id": task_id,
        "task_type": "convert",
        "task_status": STATES.get(job.state, "failure"),
        "task_position": None,
        "task_meta": {
            "num_docs": 1,
            "num_processed": int(job.state.ended),
            "num_succeeded": int(succeeded),
            "num_failed": int(failed),
        },
    }
    if failed:
        task["error_message"] = job.error or "the task failed"
    return task
