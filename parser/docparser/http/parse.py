# SPDX-License-Identifier: Apache-2.0
"""``POST /parse``: a file in a form, the result in a format of choice. For people with curl."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError
from starlette.datastructures import FormData, UploadFile

from docparser.contract import strict_json
from docparser.contract.schemas import ParseOptions
from docparser.contract.validation import describe_errors
from docparser.convert.format_names import DEFAULT_TOKENS, WITH_PICTURES, Format, How
from docparser.documents.spool import Document
from docparser.errors import InvalidRequest
from docparser.http.clients import client_of
from docparser.http.conversion import ChunkTokens, converted
from docparser.http.errors import new_log_id
from docparser.http.forms import form_of
from docparser.http.layout_parsing import CLIENT_GONE, json_answer, pages_of, wait_for
from docparser.http.layout_parsing import RESPONSES as PARSING_RESPONSES
from docparser.logs import request_id

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
RESPONSES: dict[int | str, dict[str, Any]] = {
    **PARSING_RESPONSES,
    200: {"description": "The document in the format that was asked for."},
}
NO_SNIFFING = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}


@router.post("/parse", responses=RESPONSES, openapi_extra=BODY, response_class=Response)
async def parse(request: Request, format: Format = "md", chunk_tokens: ChunkTokens = DEFAULT_TOKENS) -> Response:
    """Parses one file. `curl -sF file=@page.png http://127.0.0.1:8080/parse` prints its Markdown."""
    request.state.log_id = new_log_id()
    async with _upload(request, format) as (name, options, document):
        parse = request.app.state.service.parse
        parsing = parse(document, options, request_id.get(), client_of(request), pages_of(request))
        result = await wait_for(request, parsing)
        if result is None:
            return Response(status_code=CLIENT_GONE)
        models = await request.app.state.readiness.models_in_use()
        if format == "json":
            return json_answer(result, request.state.log_id, models, NO_SNIFFING)
        try:
            _, pieces = result.body(request.state.log_id, models)
            how = How(chunk_tokens, options.mergeTables)
            work = converted(request, pieces, result.pages, name, format, NO_SNIFFING, document, how, download=False)
            answer = await wait_for(request, work)
        finally:
            result.close()
    return answer or Response(status_code=CLIENT_GONE)


@contextlib.asynccontextmanager
async def _upload(request: Request, format: Format) -> AsyncIterator[tuple[str, ParseOptions, Document]]:
    """The file's name, the options, and the document, which exists as long as the context. Raises InvalidRequest."""
    async with contextlib.AsyncExitStack() as stack:
        async with form_of(request, max_fields=10) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile):
                raise InvalidRequest(
                    "file: missing; send multipart/form-data with a part `file`, like curl -F file=@page.png"
                )
            defaults = {"visualize": False, "returnMarkdownImages": format in WITH_PICTURES}
            try:
                options = ParseOptions.model_validate(defaults | _options(form))
            except ValidationError as exc:
                raise InvalidRequest(f"options: {describe_errors(exc.errors())}") from None
            document = await stack.enter_async_context(request.app.state.intake.from_upload(file.file))
        yield file.filename or "document", options, document


def _options(form: FormData) -> dict[str, Any]:
    text = form.get("options") or "{}"
    try:
        options = strict_json.loads(text) if isinstance(text, str) else None
    except ValueError as exc:
        raise InvalidRequest(f"options: not valid JSON ({exc})") from None
    if not isinstance(options, dict):
        raise InvalidRequest("options: expected a JSON object with options of /layout-parsing")
    return options
