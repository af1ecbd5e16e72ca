# SPDX-License-Identifier: Apache-2.0
"""Reads a submission as the hosted job API takes it: multipart with a file, or JSON with ``fileUrl``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, BinaryIO

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from docparser.documents.intake import DocumentIntake
from docparser.errors import InvalidDocument, InvalidJob, InvalidRequest
from docparser.http.forms import form_of
from docparser.http.strict_route import body_of, field
from docparser.jobs.submission import Submission, check_submission
from docparser.models.served_model import ServedModel

HOW = "send the document itself, as the part `file` of multipart/form-data or as a data: URL"


@asynccontextmanager
async def read(request: Request, served: ServedModel, intake: DocumentIntake) -> AsyncIterator[Submission]:
    """The submission in ``request``; its document is open as long as the context. Raises InvalidJob."""
    key = request.headers.get("idempotency-key")
    if is_json(request):
        fields = await _json(request)
        async with _document(request, fields, intake) as document:
            name = _last_part(fields["fileUrl"])
            yield check_submission(fields, document, file_name=name, idempotency_key=key, served=served)
        return
    async with form_of(request, max_fields=50) as form:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise InvalidJob("file: missing; send multipart/form-data with a part `file`, or JSON with `fileUrl`")
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        name = file.filename or "document"
        yield check_submission(fields, file.file, file_name=name, idempotency_key=key, served=served)


def is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").startswith("application/json")


async def _json(request: Request) -> dict[str, Any]:
    try:
        fields = await request.json()
    except (ValueError, HTTPException) as exc:
        raise InvalidJob(f"body: not valid JSON ({getattr(exc, 'detail', exc)})") from None
    if not isinstance(fields, dict):
        raise InvalidJob("body: expected a JSON object")
    return fields


@asynccontextmanager
async def _document(request: Request, fields: dict[str, Any], intake: DocumentIntake) -> AsyncIterator[BinaryIO]:
    url = fields.get("fileUrl")
    try:
        file = field(request, url) if isinstance(url, str) else ""
        if file == "":
            raise InvalidJob("fileUrl: missing; expected the address of a document, or send it as multipart `file`")
        async with intake.opened(file, body_of(request).charge) as document:
            yield document
    except (InvalidRequest, InvalidDocument) as exc:
        words = str(exc).removeprefix("file: ").replace("send the document itself, in base64", HOW)
        raise InvalidJob(f"fileUrl: {words}") from None


def _last_part(url: str) -> str:
    return "" if url.startswith("data:") else url.partition("?")[0].rpartition("/")[2]
