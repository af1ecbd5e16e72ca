# SPDX-License-Identifier: Apache-2.0
"""Pages of a job's document as they came, before any is read. A child process draws them (decision 0212)."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from typing import Any

from fastapi import APIRouter, Request, Response

from docparser.documents.limits import DocumentLimits
from docparser.errors import JobNotFound
from docparser.http.answers import CLIENT_GONE, SAFE, wait_for
from docparser.http.jobs.openapi import NO_JOB
from docparser.http.jobs.requests import JobRoute, identity, jobs_of
from docparser.http.jobs.results import KEPT_S
from docparser.http.openapi import BINARY, shows
from docparser.sandbox.offload import Offload
from docparser.sandbox.process import Bounds

router = APIRouter(prefix="/api/v2/ocr/jobs", tags=["jobs"], route_class=JobRoute, default_response_class=Response)

PAGES = "Document-Pages"
UNDRAWN: dict[int | str, dict[str, Any]] = {
    404: NO_JOB,
    413: {"description": "The page holds more than this service allows; msg names the bound."},
    504: {"description": "Drawing the page took longer than this service allows."},
}


@router.get(
    "/{job_id}/originals/{number}",
    operation_id="getJobOriginal",
    summary="A page as it came",
    responses={200: shows("The page.", other={"image/jpeg": BINARY}, headers=(PAGES,)), **UNDRAWN},
)
async def original(job_id: str, number: int, request: Request) -> Response:
    """Page `number` of the document (from 1) as a picture, also before it is read. The header `Document-Pages` has the
    number of pages."""
    jobs = jobs_of(request)
    job = await asyncio.to_thread(jobs.store.job, job_id, identity(request)[0])
    settings = request.app.state.settings

    async def drawn() -> bytes:
        with contextlib.ExitStack() as stack:
            try:
                path = await asyncio.to_thread(stack.enter_context, jobs.files.document(job.id))
            except FileNotFoundError:
                raise JobNotFound("the document is missing where jobs are kept; submit it again") from None
            limits = dataclasses.asdict(DocumentLimits.of(settings))
            args = {"path": str(path), "format": job.format, "number": number, "limits": limits}
            offload: Offload = request.app.state.offload
            bounds = Bounds.of(settings)
            with await offload.run("draw", args, lambda _: [str(path)], bounds, f"page {number}") as output:
                return await asyncio.to_thread(output.read)

    content = await wait_for(request, drawn())
    if content is None:
        return Response(status_code=CLIENT_GONE)
    head, _, picture = content.partition(b"\n")
    headers = {PAGES: str(json.loads(head)["pages"]), "Cache-Control": f"private, max-age={KEPT_S}"}
    return Response(picture, media_type="image/jpeg", headers=SAFE | headers)
