# SPDX-License-Identifier: Apache-2.0
"""``POST /parse``: a file as a form sends it, the result in a format of choice. For people with curl."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from docparser.convert.document import Document
from docparser.convert.formats import FORMATS, Format, convert
from docparser.errors import InvalidRequest
from docparser.http_errors import describe_validation_error, new_log_id
from docparser.logs import request_id
from docparser.parsing import CLIENT_GONE, wait_for
from docparser.parsing import RESPONSES as PARSING_RESPONSES
from docparser.schemas import ParseRequest
from docparser.service import ParsedDocument

router = APIRouter(tags=["parsing"])

BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "options": {"type": "string", "description": "Options of /layout-parsing as JSON."},
                    },
                }
            }
        },
    }
}
RESPONSES = PARSING_RESPONSES | {200: {"description": "The document as Markdown, JSON, HTML, a workbook, or a ZIP."}}
NO_SNIFFING = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}


@router.post("/parse", responses=RESPONSES, openapi_extra=BODY, response_class=Response)
async def parse(request: Request, format: Format = "md") -> Response:
    """Parses one file. `curl -sF file=@page.png http://127.0.0.1:8080/parse` prints its Markdown."""
    request.state.log_id = new_log_id()
    name, body = await _read(request, format)
    document = await wait_for(request, request.app.state.service.parse(body, request_id.get()))
    if document is None:
        return Response(status_code=CLIENT_GONE)
    try:
        models = await request.app.state.models.in_use()
        return await asyncio.to_thread(_respond, document, name, format, request.state.log_id, models)
    finally:
        document.close()


def _respond(parsed: ParsedDocument, name: str, format: Format, log_id: str, models: dict) -> Response:
    _, pieces = parsed.body(log_id, models)
    answer = b"".join(pieces)
    document = Document.of_result(name, json.loads(answer)["result"])
    content = answer if format == "json" else convert(document, format)
    headers = NO_SNIFFING | (document.disposition(format) if format in ("xlsx", "zip") else {})
    return Response(content, media_type=FORMATS[format], headers=headers)


async def _read(request: Request, format: Format) -> tuple[str, ParseRequest]:
    """The file's name and the request that it amounts to. Raises InvalidRequest."""
    try:
        form = await request.form(max_files=1, max_fields=10, max_part_size=1 << 20)
    except HTTPException as exc:
        raise InvalidRequest(f"body: not multipart/form-data as expected ({exc.detail})") from None
    try:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise InvalidRequest(
                "file: missing; send multipart/form-data with a part `file`, like curl -F file=@page.png"
            )
        options = {"visualize": False, "returnMarkdownImages": format in ("json", "html", "zip"), **_options(form)}
        data = base64.b64encode(await file.read()).decode("ascii")
        try:
            return file.filename or "document", ParseRequest.model_validate({**options, "file": data})
        except ValidationError as exc:
            words = "; ".join(describe_validation_error(error) for error in exc.errors()[:5])
            raise InvalidRequest(f"options: {words}") from None
    finally:
        await form.close()


def _options(form: FormData) -> dict[str, Any]:
    text = form.get("options") or "{}"
    try:
        options = json.loads(text) if isinstance(text, str) else None
    except ValueError as exc:
        raise InvalidRequest(f"options: not valid JSON ({exc})") from None
    if not isinstance(options, dict):
        raise InvalidRequest("options: expected a JSON object with options of /layout-parsing")
    return {name: value for name, value in options.items() if name not in ("file", "fileType")}
