# SPDX-License-Identifier: Apache-2.0
"""``GET /health`` (the process is alive) and ``GET /health/ready`` (it can parse)."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from docparser.http_errors import error_body, new_log_id

router = APIRouter(tags=["health"])


@router.get("/health")
async def health() -> dict:
    return {"logId": new_log_id(), "errorCode": 0, "errorMsg": "Healthy"}


@router.get("/health/ready", responses={503: {"description": "errorMsg says which model is not there, and why."}})
async def ready(request: Request) -> JSONResponse:
    """Whether the layout model is loaded and the VLM server answers, and which weights both use."""
    states, trouble = await request.app.state.models.readiness()
    if trouble:
        return JSONResponse(error_body(503, " ".join(trouble)) | {"result": states}, 503, {"Retry-After": "5"})
    return JSONResponse({"logId": new_log_id(), "errorCode": 0, "errorMsg": "Ready", "result": states})
