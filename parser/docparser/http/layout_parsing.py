# SPDX-License-Identifier: Apache-2.0
"""``POST /layout-parsing`` and ``POST /restructure-pages``."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from docparser.contract.schemas import ParseRequest, RestructureRequest
from docparser.errors import RequestTimeout
from docparser.http.clients import client_of
from docparser.http.errors import new_log_id
from docparser.http.strict_route import StrictRoute, body_of, field
from docparser.logs import request_id
from docparser.parsing.result import ParseResult

router = APIRouter(tags=["parsing"], route_class=StrictRoute)
T = TypeVar("T")

CHECK_S = 0.25  # between two checks whether the client is still connected
CLIENT_GONE = 499

ERROR = {
    "content": {"application/json": {"example": {"logId": "…", "errorCode": 422, "errorMsg": "file: not base64 (…)"}}}
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": '`{logId, errorCode: 0, errorMsg: "Success", '
        "result: {layoutParsingResults, dataInfo, docparser}}`;"
        " `docparser: {models, partial, pages}` says which weights were used and what is missing or cut, and why.",
    },
    400: {"description": "The body is nested too deeply, or Host is no host.", **ERROR},
    401: {"description": "A key is needed.", **ERROR},
    403: {"description": "A web page of another origin sent this.", **ERROR},
    413: {"description": "The document exceeds a limit of this service.", **ERROR},
    421: {"description": "This service does not answer for the host.", **ERROR},
    422: {"description": "A field is wrong, or the document cannot be read; errorMsg names it.", **ERROR},
    429: {"description": "The queue is full, or a quota is used up; Retry-After says when to come back.", **ERROR},
    503: {"description": "The models are not loaded, or the VLM server is away; Retry-After.", **ERROR},
    504: {"description": "The document took longer than this service allows.", **ERROR},
}


@router.post("/layout-parsing", responses=RESPONSES)
async def layout_parsing(body: ParseRequest, request: Request) -> Response:
    """Parses an image or a PDF, every page of it."""
    request.state.log_id = body.logId or new_log_id()
    file = field(request, body.file)

    async def work() -> ParseResult:
        async with request.app.state.intake.from_field(file, body.fileType, body_of(request).charge) as document:
            parse = request.app.state.service.parse
            return await parse(document, body, request_id.get(), client_of(request), pages_of(request))

    return await _answer(request, work())


@router.post("/restructure-pages", responses=RESPONSES)
async def restructure_pages(body: RestructureRequest, request: Request) -> Response:
    """Joins tables that cross pages, and levels titles, over pages that were parsed before."""
    request.state.log_id = body.logId or new_log_id()
    return await _answer(request, request.app.state.service.restructure(body, client_of(request)))


def pages_of(request: Request) -> Callable[[int], None]:
    """Counts a document's pages towards the client's quotas. Raises QuotaExceeded, DocumentTooLarge."""
    return functools.partial(request.app.state.allowance.spend_pages, request.state.key_id)


async def wait_for(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """The work's result, or None if the client has left.

    When the client leaves, and at the time limit, the work is cancelled with all its pages. Raises RequestTimeout, and
    whatever the work raises.
    """
    limit_s = request.app.state.settings.request_timeout_s
    deadline = time.monotonic() + limit_s
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait([task], timeout=CHECK_S))[0]:
            if await request.is_disconnected():
                return None
            if time.monotonic() > deadline:
                raise RequestTimeout(f"The document was given up after {limit_s:.0f} s (PARSER_REQUEST_TIMEOUT_S).")
        return task.result()
    finally:
        task.cancel()


async def _answer(request: Request, work: Coroutine[Any, Any, ParseResult]) -> Response:
    result = await wait_for(request, work)
    if result is None:
        return Response(status_code=CLIENT_GONE)
    return json_answer(result, request.state.log_id, await request.app.state.readiness.models_in_use())


def json_answer(
    result: ParseResult, log_id: str, models: dict, headers: Mapping[str, str] | None = None
) -> StreamingResponse:
    """The answer in pieces, as they are read from the result; closes the result at its end."""
    length, pieces = result.body(log_id, models)

    async def send() -> AsyncIterator[bytes]:
        try:
            for piece in pieces:
                yield piece
        finally:
            result.close()

    headers = {"Content-Length": str(length), **(headers or {})}
    return StreamingResponse(send(), media_type="application/json", headers=headers)
