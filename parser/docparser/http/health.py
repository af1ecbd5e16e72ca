# SPDX-License-Identifier: Apache-2.0
"""``GET /health`` (the process is alive), ``GET /health/ready`` (it can parse) and ``GET /metrics``."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from docparser.http.errors import error_body, new_log_id
from docparser.parsing.metrics import CONTENT_TYPE

router = APIRouter(tags=["health"])


@router.get("/health")
async def health() -> dict:
    return {"logId": new_log_id(), "errorCode": 0, "errorMsg": "Healthy"}


@router.get("/health/ready", responses={503: {"description": "errorMsg says which model is not there, and why."}})
async def ready(request: Request) -> JSONResponse:
    """Whether the layout model is loaded and the VLM server reads a tiny image, and which weights both use."""
    states, problems = await request.app.state.readiness.check()
    if problems:
        return JSONResponse(error_body(503, " ".join(problems)) | {"result": states}, 503, {"Retry-After": "5"})
    return JSONResponse({"logId": new_log_id(), "errorCode": 0, "errorMsg": "Ready", "result": states})


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """Counts and times for Prometheus; `config/grafana` has a dashboard for them."""
    state = request.app.state
    return Response(state.metrics.exposition(await state.readiness.replicas.get()), media_type=CONTENT_TYPE)
