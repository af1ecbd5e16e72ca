# SPDX-License-Identifier: Apache-2.0
"""What the service says of itself: ``/health``, ``/health/ready``, ``/metrics``, ``/usage`` and ``/capabilities``."""

from __future__ import annotations

import asyncio
import functools
from importlib import metadata
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from bundle_version import VERSION
from docparser.clients.keys import shown_time
from docparser.contract.answers import ModelsInUse
from docparser.contract.service_answers import (
    Capabilities,
    CapabilitiesAnswer,
    HealthAnswer,
    ModelNames,
    NotReadyAnswer,
    ReadyAnswer,
    Usage,
    UsageAnswer,
)
from docparser.convert.names import FORMATS
from docparser.http.errors import SafeJSON, error_body, success
from docparser.http.openapi import as_text, shows
from docparser.parsing.metrics import CONTENT_TYPE
from file_types import FORMATS as READABLE

router = APIRouter(tags=["health"], default_response_class=Response)
LIBRARIES = ("paddleocr", "paddlex", "paddlepaddle")
# Names in the answer -> settings; units are those of the settings.
LIMITS = {
    "bodyMib": "max_body_mib",
    "pages": "max_pages",
    "imagePixels": "max_image_pixels",
    "pdfPagePixels": "max_pdf_page_pixels",
    "requests": "max_requests",
    "requestSeconds": "request_timeout_s",
    "pageSeconds": "page_timeout_s",
    "queuedJobs": "max_queued_jobs",
    "queuedPages": "max_queued_pages",
    "jobKeepHours": "job_keep_hours",
    "resultUrlHours": "result_url_hours",
}


@router.head("/health", include_in_schema=False)  # load balancers ask so
@router.get(
    "/health",
    operation_id="getHealth",
    summary="Whether the process is alive",
    responses={200: shows("It is alive.", HealthAnswer)},
)
async def health() -> JSONResponse:
    """Whether the process answers; `/health/ready` says whether it can work."""
    return JSONResponse(success({"version": VERSION}, "Healthy"))


@router.head("/health/ready", include_in_schema=False)
@router.get(
    "/health/ready",
    operation_id="getReadiness",
    summary="Whether the service can work",
    responses={
        200: shows("It can.", ReadyAnswer),
        503: shows("errorMsg says which model is not there, and why.", NotReadyAnswer),
    },
)
async def ready(request: Request) -> JSONResponse:
    """Whether the layout model is loaded and the VLM server reads a tiny image, and which weights both use."""
    states, problems = await request.app.state.readiness.check()
    if problems:
        said: NotReadyAnswer = {**error_body(503, " ".join(problems)), "result": states}
        return JSONResponse(said, 503, {"Retry-After": "5"})
    return JSONResponse(success(states, "Ready"))


@router.get(
    "/metrics",
    operation_id="getMetrics",
    summary="Metrics",
    responses={200: shows("In Prometheus' text format.", other={"text/plain": as_text("Samples.")})},
)
async def metrics(request: Request) -> Response:
    """Counts and times for Prometheus; `config/grafana` has a dashboard for them."""
    state = request.app.state
    await state.readiness.replicas.get()  # the page shows the latest count
    return Response(state.metrics.exposition(), media_type=CONTENT_TYPE)


@router.get(
    "/usage",
    operation_id="getUsage",
    summary="Quotas of the key",
    responses={200: shows("The key that was sent.", UsageAnswer)},
)
async def usage(request: Request) -> Response:
    """The key's `name`, `expires`, and its `quotas` with `limit`, `used` and `resets`; `name` is null where no key is
    needed."""
    client = request.state.key_id
    state = request.app.state
    key = state.keys.client(client) if client else None
    result: Usage = {"name": None, "expires": None, "quotas": []}
    if key is not None:
        result["name"] = key.name
        result["expires"] = shown_time(key.expires) if key.expires is not None else None
        result["quotas"] = await asyncio.to_thread(state.allowance.report, key)
    return SafeJSON(success(result))


@router.get(
    "/capabilities",
    operation_id="getCapabilities",
    summary="Models, formats and limits",
    responses={200: shows("What this service has.", CapabilitiesAnswer)},
)
async def capabilities(request: Request) -> JSONResponse:
    """`models` with their weights, the VLM's `tasks` (null: not known) and the `names` that requests may give it;
    `formats` of documents and of answers; `limits` of this service; the `confidence` below which blocks are doubtful
    (null: blocks say none); `versions`."""
    state = request.app.state
    served = state.jobs.model
    models: ModelsInUse = await state.readiness.models_in_use()
    names: ModelNames = {"openai": list(served.own_names), "jobs": list(served.job_names)}
    tasks = None if served.tasks is None else list(served.tasks)
    limits: dict[str, Any] = {name: getattr(state.settings, field) for name, field in LIMITS.items()}
    result: Capabilities = {
        "models": {"layout": models["layout"], "vlm": {**models["vlm"], "tasks": tasks, "names": names}},
        "formats": {
            "documents": [known.name for known in READABLE],
            "answers": list(FORMATS),
            "outputFormats": ["docx"],
        },
        "limits": limits
        | {
            "fetchesUrls": bool(state.settings.url_hosts),
            "sendsCallbacks": bool(state.settings.callback_hosts),
        },
        "confidence": {"doubtfulBelow": state.settings.doubtful_below if state.settings.confidence else None},
        "versions": {"bundle": VERSION, **_versions()},
    }
    return JSONResponse(success(result))


@functools.cache
def _versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in LIBRARIES}
