# SPDX-License-Identifier: Apache-2.0
"""Reads a submission as the hosted job API takes it: multipart with a file, or JSON with ``fileUrl``."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from docparser.contract import strict_json
from docparser.documents.intake import DocumentIntake
from docparser.errors import InvalidDocument, InvalidJob, InvalidRequest
from docparser.jobs.submission import Submission, check_submission
from docparser.models.served_model import ServedModel


@asynccontextmanager
async def read(request: Request, served: ServedModel, intake: DocumentIntake) -> AsyncIterator[Submission]:
    """The submission in ``request``; its document is open as long as the context. Raises InvalidJob."""
    key = request.headers.get("idempotency-key")
    if request.headers.get("content-type", "").startswith("application/json"):
        fields = await _json(request)
        with io.BytesIO(await _fetch(fields.get("fileUrl"), intake)) as document:
            name = _last_part(fields["fileUrl"])
            yield check_submission(fields, document, file_name=name, idempotency_key=key, served=served)
        return
    try:
        form = await request.form(max_files=1, max_fields=50, max_part_size=1 << 20)
    except HTTPException as exc:
        raise InvalidJob(f"body: not multipart/form-data as expected ({exc.detail})") from None
    try:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise InvalidJob("file: missing; send multipart/form-data with a part `file`, or JSON with `fileUrl`")
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        name = file.filename or "document"
        yield check_submission(fields, file.file, file_name=name, idempotency_key=key, served=served)
    finally:
        await form.close()


async def _json(request: Request) -> dict[str, Any]:
    try:
        fields = strict_json.loads(await request.body())
    except ValueError as exc:
        raise InvalidJob(f"body: not valid JSON ({exc})") from None
    if not isinstance(fields, dict):
        raise InvalidJob("body: expected a JSON object")
    return fields


async def _fetch(url: Any, intake: DocumentIntake) -> bytes:
    if not isinstance(url, str) or not url:
        raise InvalidJob("fileUrl: missing; expected the address of a document, or send it as multipart `file`")
    try:
        return await intake.read_field(url)
    except (InvalidRequest, InvalidDocument) as exc:
        raise InvalidJob(f"fileUrl: {str(exc).removeprefix('file: ')}") from None


def _last_part(url: str) -> str:
    return "" if url.startswith("data:") else url.partition("?")[0].rpartition("/")[2]
