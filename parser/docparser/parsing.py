# SPDX-License-Identifier: Apache-2.0
"""``POST /layout-parsing`` and ``POST /restructure-pages``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from docparser.http_errors import new_log_id
from docparser.logs import request_id
from docparser.schemas import ParseRequest, RestructureRequest
from docparser.service import ParsedDocument

router = APIRouter(tags=["parsing"])

WATCH_S = 0.25  # how often a waiting request is asked whether its client is still there
CLIENT_GONE = 499

ERROR = {
    "content": {"application/json": {"example": {"logId": "…", "errorCode": 422, "errorMsg": "file: not base64 (…)"}}}
}
RESPONSES = {
    200: {
        "description": '`{logId, errorCode: 0, errorMsg: "Success", result: {layoutParsingResults, dataInfo, docparser}}`;'
        " `docparser: {models, partial, pages}` says which weights were used and what is missing or cut, and why.",
    },
    401: {"description": "A key is needed.", **ERROR},
    413: {"description": "The document exceeds a limit of this service.", **ERROR},
    422: {"description": "A field is wrong, or the document cannot be read; errorMsg names it.", **ERROR},
    429: {"description": "The queue is full; Retry-After says when to come back.", **ERROR},
    503: {"description": "The models are not loaded, or the VLM server is away; Retry-After.", **ERROR},
    504: {"description": "The document took longer than this service allows.", **ERROR},
}


@router.post("/layout-parsing", responses=RESPONSES)
async def layout_parsing(body: ParseRequest, request: Request) -> Response:
    """Parses an image or a PDF, every page of it."""
    request.state.log_id = body.logId or new_log_id()
    return await _answer(request, request.app.state.service.parse(body, request_id.get()))


@router.post("/restructure-pages", responses=RESPONSES)
async def restructure_pages(body: RestructureRequest, request: Request) -> Response:
    """Joins tables that cross pages, and levels titles, over pages that were parsed before."""
    request.state.log_id = body.logId or new_log_id()
    return await _answer(request, request.app.state.service.restructure(body))


async def wait_for(request: Request, work: Awaitable[ParsedDocument]) -> ParsedDocument | None:
    """The work's result, or None when the client has left: then its pages are given up, wherever they are."""
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([task], timeout=WATCH_S))[0]:
            if await request.is_disconnected():
                return None
        return task.result()
    finally:
        task.cancel()


async def _answer(request: Request, work: Awaitable[ParsedDocument]) -> Response:
    document = await wait_for(request, work)
    if document is None:
        return Response(status_code=CLIENT_GONE)
    length, pieces = document.body(request.state.log_id, await request.app.state.models.in_use())

    async def send():
        try:
            for piece in pieces:
                yield piece
        finally:
            document.close()

    return StreamingResponse(send(), media_type="application/json", headers={"Content-Length": str(length)})
