# SPDX-License-Identifier: Apache-2.0
"""``POST /layout-parsing`` and ``POST /restructure-pages``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable

from fastapi import APIRouter, Request, Response

from docparser.http_errors import new_log_id
from docparser.schemas import ParseRequest, RestructureRequest

router = APIRouter(tags=["parsing"])

WATCH_S = 0.5  # how often a waiting request is asked whether its client is still there
CLIENT_GONE = 499

ERROR = {
    "content": {"application/json": {"example": {"logId": "…", "errorCode": 422, "errorMsg": "file: not base64 (…)"}}}
}
RESPONSES = {
    200: {
        "description": '`{logId, errorCode: 0, errorMsg: "Success", result: {layoutParsingResults, dataInfo, models}}`',
    },
    413: {"description": "The document exceeds a limit of this service.", **ERROR},
    422: {"description": "A field is wrong, or the document cannot be read; errorMsg names it.", **ERROR},
    503: {"description": "The models are not loaded, or the VLM server is away.", **ERROR},
}


@router.post("/layout-parsing", responses=RESPONSES)
async def layout_parsing(body: ParseRequest, request: Request) -> Response:
    """Parses an image or a PDF, every page of it."""
    request.state.log_id = body.logId or new_log_id()
    return await _answer(request, request.app.state.service.parse(body))


@router.post("/restructure-pages", responses=RESPONSES)
async def restructure_pages(body: RestructureRequest, request: Request) -> Response:
    """Joins tables that cross pages, and levels titles, over pages that were parsed before."""
    request.state.log_id = body.logId or new_log_id()
    return await _answer(request, request.app.state.service.restructure(body))


async def _answer(request: Request, work: Awaitable[dict]) -> Response:
    """The work's result, or nothing at all when the client has left: then the pages that wait are not parsed."""
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([task], timeout=WATCH_S))[0]:
            if await request.is_disconnected():
                return Response(status_code=CLIENT_GONE)
        result = task.result()
    finally:
        task.cancel()
    result["models"] = await request.app.state.models.in_use()
    body = {"logId": request.state.log_id, "errorCode": 0, "errorMsg": "Success", "result": result}
    content = await asyncio.to_thread(json.dumps, body, ensure_ascii=False)
    return Response(content, media_type="application/json")
