# SPDX-License-Identifier: Apache-2.0
"""``GET /capabilities``: which models read, what goes in and out, the limits, and versions. For programs that adapt."""

from __future__ import annotations

import functools
from importlib import metadata
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from docparser.convert.format_names import FORMATS
from docparser.http.errors import new_log_id
from file_types import FORMATS as READABLE

router = APIRouter(tags=["health"])
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


@router.get("/capabilities")
async def capabilities(request: Request) -> JSONResponse:
    """`models` with their weights, the VLM's `tasks` (null: not known) and the `names` that requests may give it;
    `formats` of documents and of answers; `limits` of this service; the `confidence` below which blocks are doubtful
    (null: blocks say none); `versions`."""
    state = request.app.state
    served = state.jobs.model
    models = await state.readiness.models_in_use()
    models["vlm"] |= {"tasks": served.tasks, "names": {"openai": served.own_names, "jobs": served.job_names}}
    limits: dict[str, Any] = {name: getattr(state.settings, field) for name, field in LIMITS.items()}
    result = {
        "models": models,
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
        "versions": {"docparser": request.app.version, **_versions()},
    }
    return JSONResponse({"logId": new_log_id(), "errorCode": 0, "errorMsg": "Success", "result": result})


@functools.cache
def _versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in LIBRARIES}
