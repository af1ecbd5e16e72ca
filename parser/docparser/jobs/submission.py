# SPDX-License-Identifier: Apache-2.0
"""A submission as the hosted job API takes it: multipart with a file, or JSON with ``fileUrl``."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import PurePath
from typing import Any, BinaryIO

from fastapi import Request
from pydantic import ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from docparser import source
from docparser.errors import InvalidDocument, InvalidRequest
from docparser.http_errors import describe_validation_error
from docparser.jobs import model_names, page_ranges
from docparser.jobs.errors import InvalidJob
from docparser.schemas import ParseRequest
from docparser.url_source import UrlSource

MAX_NAME = 200
MAX_ID = 128
SNIFFED = 4096


@dataclasses.dataclass(frozen=True)
class Submission:
    """``options`` are the fields of ``/layout-parsing`` without ``file``; ``fingerprint`` tells equal submissions."""

    model: str
    options: dict[str, Any]
    page_ranges: str | None
    batch_id: str | None
    idempotency_key: str | None
    file_name: str
    format: str
    document: BinaryIO
    fingerprint: str


@asynccontextmanager
async def read(request: Request, served_model: str, urls: UrlSource) -> AsyncIterator[Submission]:
    """The submission in ``request``; its document can be read as long as the context lasts. Raises InvalidJob."""
    if request.headers.get("content-type", "").startswith("application/json"):
        fields = await _json(request)
        with io.BytesIO(await _fetch(fields.get("fileUrl"), urls)) as document:
            yield _check(fields, _last_part(fields["fileUrl"]), document, request, served_model)
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
        yield _check(fields, file.filename or "document", file.file, request, served_model)
    finally:
        await form.close()


async def _json(request: Request) -> dict[str, Any]:
    try:
        fields = json.loads(await request.body())
    except ValueError as exc:
        raise InvalidJob(f"body: not valid JSON ({exc})") from None
    if not isinstance(fields, dict):
        raise InvalidJob("body: expected a JSON object")
    return fields


async def _fetch(url: Any, urls: UrlSource) -> bytes:
    if not isinstance(url, str) or not url:
        raise InvalidJob("fileUrl: missing; expected the address of a document, or send it as multipart `file`")
    try:
        return await urls.fetch(url) if source.is_url(url) else source.decode(url)
    except (InvalidRequest, InvalidDocument) as exc:
        raise InvalidJob(f"fileUrl: {str(exc).removeprefix('file: ')}") from None


def _last_part(url: str) -> str:
    return "" if url.startswith("data:") else url.partition("?")[0].rpartition("/")[2]


def _check(fields: dict[str, Any], name: str, document: BinaryIO, request: Request, served_model: str) -> Submission:
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        raise InvalidJob("model: missing; expected one of " + ", ".join((*model_names.ALIASES, served_model)))
    model_names.check(model, served_model)
    ranges = _text(fields, "pageRanges", 10_000)
    if ranges is not None:
        page_ranges.check(ranges)
    options = _options(fields.get("optionalPayload"))
    batch_id = _text(fields, "batchId", MAX_ID)
    key = request.headers.get("idempotency-key")
    if key is not None and not 0 < len(key) <= MAX_ID:
        raise InvalidJob(f"Idempotency-Key: {len(key)} characters; expected 1 to {MAX_ID}")
    document.seek(0)
    head = document.read(SNIFFED)
    if not head:
        raise InvalidJob(f"file: the document is empty; expected {source.SUPPORTED}")
    try:
        format = source.check_type(head, None)
    except InvalidDocument as exc:
        raise InvalidJob(str(exc)) from None
    document.seek(0)
    digest = hashlib.file_digest(document, "sha256")
    digest.update(json.dumps([model, options, ranges, batch_id], sort_keys=True).encode())
    document.seek(0)
    return Submission(
        model, options, ranges, batch_id, key, PurePath(name).name[:MAX_NAME] or "document", format, document,
        digest.hexdigest(),
    )  # fmt: skip


def _text(fields: dict[str, Any], field: str, longest: int) -> str | None:
    value = fields.get(field)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > longest:
        raise InvalidJob(f"{field}: expected a string of at most {longest} characters")
    return value


def _options(payload: Any) -> dict[str, Any]:
    """``optionalPayload``: an object, in multipart as a JSON string. Raises InvalidJob."""
    if payload is None or payload == "":
        return {}
    if isinstance(payload, str):
        try:
            payload = json.loads(payload)
        except ValueError as exc:
            raise InvalidJob(f"optionalPayload: not valid JSON ({exc})") from None
    if not isinstance(payload, dict):
        raise InvalidJob("optionalPayload: expected a JSON object")
    options = {name: value for name, value in payload.items() if name not in ("file", "fileType")}
    try:
        ParseRequest.model_validate({**options, "file": ""})
    except ValidationError as exc:
        words = "; ".join(describe_validation_error(error) for error in exc.errors()[:5])
        raise InvalidJob(f"optionalPayload: {words}") from None
    return options
