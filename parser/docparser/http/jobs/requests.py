# SPDX-License-Identifier: Apache-2.0
"""What the routes of jobs share: the submission in a request, who asks, and the form of an answer.

A submission is multipart with a file, or JSON with ``fileUrl``, as the hosted job API takes it. An answer is
``{logId, code, msg, data}``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated, Any, BinaryIO, Literal

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from docparser.contract.job_answers import Batch, CancelledJob, Job, ListedJobs, RetriedJob, SubmittedJob
from docparser.contract.request_parts import file_name_of, with_priority
from docparser.contract.schemas import Parameters
from docparser.documents.intake import DocumentIntake
from docparser.errors import InvalidDocument, InvalidJob, InvalidRequest
from docparser.http.errors import SafeJSON, new_log_id
from docparser.http.gate import client_of
from docparser.http.strict_reading import StrictRoute, body_of, field, form_of, says_json
from docparser.jobs.service import JobService
from docparser.jobs.submission import MAX_ID, Submission, check_submission
from docparser.models.served_model import ServedModel

CURSOR = re.compile(r"(\d{1,12}\.\d{1,12})-([0-9a-f]{32})")  # when a job was made, and its id
HOW_TO_SEND = "send the document itself, as the part `file` of multipart/form-data or as a data: URL"


@asynccontextmanager
async def read_submission(request: Request, served: ServedModel, intake: DocumentIntake) -> AsyncIterator[Submission]:
    """The submission in ``request``; its document is open as long as the context. Raises InvalidJob."""
    key = request.headers.get("idempotency-key")
    if says_json(request):
        fields = await _json(request)
        url = fields.pop("fileUrl", None)
        async with _document(request, url, intake) as document:
            name = file_name_of(url)
            yield await asyncio.to_thread(
                check_submission, fields, document, file_name=name, idempotency_key=key, served=served
            )
        return
    async with form_of(request, max_fields=50) as form:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise InvalidJob(
                "file: missing; send multipart/form-data with a part `file` that has a filename, or JSON with `fileUrl`"
            )
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        name = file.filename or "document"
        yield await asyncio.to_thread(
            check_submission, fields, file.file, file_name=name, idempotency_key=key, served=served
        )


async def _json(request: Request) -> dict[str, Any]:
    try:
        fields = await request.json()
    except (ValueError, HTTPException) as exc:
        raise InvalidJob(f"body: not valid JSON ({getattr(exc, 'detail', exc)})") from None
    if not isinstance(fields, dict):
        raise InvalidJob("body: expected a JSON object")
    return fields


@asynccontextmanager
async def _document(request: Request, url: Any, intake: DocumentIntake) -> AsyncIterator[BinaryIO]:
    try:
        file = field(request, url) if isinstance(url, str) else ""
        if file == "":
            raise InvalidJob("fileUrl: missing; expected the address of a document, or send it as multipart `file`")
        async with intake.opened(file, body_of(request).charge) as document:
            yield document
    except (InvalidRequest, InvalidDocument) as exc:
        words = str(exc).removeprefix("file: ").replace("send the document itself, in base64", HOW_TO_SEND)
        raise InvalidJob(f"fileUrl: {words}") from None


class Wanted(Parameters):
    """The parameters of a list of jobs."""

    state: Annotated[list[Literal["pending", "running", "done", "failed"]], Field(max_length=4)] = Field(
        default=[], description="Only jobs in one of these states; may be given several times."
    )
    batchId: Annotated[str, Field(max_length=MAX_ID)] | None = Field(default=None, description="Only jobs of it.")
    jobId: Annotated[list[Annotated[str, Field(max_length=MAX_ID)]], Field(max_length=100)] = Field(
        default=[], description="Only these jobs; may be given several times. Who knows ids needs no key for them."
    )
    limit: int = Field(default=50, ge=1, le=200, description="How many jobs at most.")
    cursor: Annotated[str, Field(max_length=80)] | None = Field(
        default=None, description="`nextCursor` of the answer before: what comes after it."
    )

    def before(self) -> tuple[float, str] | None:
        """When the job was made that the cursor names, and its id: the list goes on behind it. Raises InvalidJob."""
        if self.cursor is None:
            return None
        match = CURSOR.fullmatch(self.cursor)
        if not match:
            raise InvalidJob(
                f"cursor: {self.cursor!r} is not valid; send `nextCursor` of the last answer, or leave it out"
            )
        return float(match[1]), match[2]


class Removal(Parameters):
    """The parameters of a job's cancellation: a misspelt one must not leave a document where it was."""

    purge: bool = False


def jobs_of(request: Request) -> JobService:
    return request.app.state.jobs


def identity(request: Request) -> tuple[str, str]:
    """The client: ``owner``, whose jobs it may see, and ``flow``, which takes turns with those of other clients.

    With API keys both are the key's id. Without, everyone who knows a job's id or its batch's may see the job.
    """
    return getattr(request.state, "key_id", ""), client_of(request)


def base_url(request: Request) -> str:
    """This service's address as the client reaches it, without a slash at its end."""
    return str(request.app.state.settings.public_url or request.base_url).rstrip("/")


async def keep(request: Request, reading: AbstractAsyncContextManager[Submission]) -> tuple[str, Submission]:
    """Reads a submission, once there is room for it, and makes a job of it, whose id it returns. Raises ParserError."""
    jobs = jobs_of(request)
    owner, flow = identity(request)
    await asyncio.to_thread(jobs.check_room)
    await jobs.check_presence()
    async with reading as submission:
        await jobs.sender.check(submission.callback_url)
        turns = with_priority(flow, bulk=submission.bulk)
        job_id = await asyncio.to_thread(jobs.keep, submission, owner, turns, base_url(request))
    jobs.runner.wake()
    return job_id, submission


def result_url(request: Request, job_id: str, name: str = "result.jsonl") -> str:
    """The signed address of a job's result, or of one of its pictures, as this client can reach it."""
    return base_url(request) + jobs_of(request).links.path(job_id, name)


class JobRoute(StrictRoute):
    """JSON is read as everywhere; the endpoint reads a form itself, as a stream."""

    def reads_json(self, request: Request) -> bool:
        return says_json(request)


def answer(data: SubmittedJob | Job | Batch | ListedJobs | CancelledJob | RetriedJob) -> JSONResponse:
    return SafeJSON({"logId": new_log_id(), "code": 0, "msg": "Success", "data": data})
