# SPDX-License-Identifier: Apache-2.0
"""The app factory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.telemetry import TelemetryConfig

from bundle_version import VERSION
from docparser import traces
from docparser.clients.allowance import Allowance, ClientMetrics
from docparser.clients.audit import AuditLog
from docparser.clients.key_ring import KeyRing
from docparser.clients.origins import Origins
from docparser.clients.shares import ConcurrencyLimit
from docparser.clients.usage import ledger_of
from docparser.documents.intake import DocumentIntake, UrlSource
from docparser.documents.spool import remove_stale
from docparser.http import answers, errors, openapi, parsing_routes, service_info, web_pages
from docparser.http.admission import Admission, cors
from docparser.http.dialects import docling, mistral, openai
from docparser.http.dialects.mistral import UploadedFiles
from docparser.http.gate import Gate, TracedRequests
from docparser.http.jobs import events, results, routes
from docparser.jobs.service import JobService
from docparser.models.readiness import Readiness
from docparser.models.served_model import ServedModel
from docparser.parsing.metrics import Metrics
from docparser.parsing.pool import WorkerPool
from docparser.parsing.scheduler import PageScheduler
from docparser.parsing.service import ParseService
from docparser.sandbox.offload import Offload
from docparser.settings import Settings

# Of FastAPI itself: it would tell messages of errors and what clients sent. `traces` has ours.
NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}


def create_app(settings: Settings) -> FastAPI:
    """The service. Its workers start with the server (ASGI lifespan), not here.

    Raises NotReady if its keys or its model are wrong; StorageUnavailable or DataDirFull if the data directory cannot
    be used.
    """
    keys = KeyRing.of(settings)
    pool = WorkerPool(settings)
    scheduler = PageScheduler(settings, pool)
    metrics = Metrics(pool, scheduler)
    intake = DocumentIntake(settings.spool_dir, UrlSource(settings))
    model = ServedModel.of(settings)
    readiness = Readiness(settings, pool, model)
    metrics.registry.register(readiness.replicas)
    service = ParseService(settings, scheduler, metrics, model.accepted(), readiness.vlm_is_demo)
    client_metrics = ClientMetrics(metrics.registry)
    allowance = Allowance(keys, ledger_of(settings), client_metrics)
    audit = AuditLog(settings.audit_log)
    admission = Admission(keys, Origins(settings), allowance, audit, client_metrics)
    jobs = JobService(settings, service, readiness, allowance, audit, model, metrics.registry)
    uploads = UploadedFiles(settings)
    offload = Offload(settings, answers.JOBS)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        remove_stale(settings.spool_dir)
        traces.start(settings)
        keys_watched = asyncio.create_task(keys.watch())
        scheduler.start()
        offload.start()
        await jobs.start()
        try:
            yield
        finally:
            keys_watched.cancel()
            await jobs.close()
            await scheduler.close()
            await readiness.close()
            await intake.close()
            uploads.close()
            await asyncio.to_thread(offload.close)
            allowance.close()
            audit.close()
            await asyncio.to_thread(traces.stop)

    app = FastAPI(
        version=VERSION,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        telemetry=NO_TELEMETRY,
        redirect_slashes=False,  # behind a proxy they would lead to another scheme and path than the client's
        **openapi.about(settings),
    )
    app.state.settings = settings
    app.state.pool = pool
    app.state.readiness = readiness
    app.state.intake = intake
    app.state.uploads = uploads
    app.state.service = service
    app.state.jobs = jobs
    app.state.offload = offload
    app.state.metrics = metrics
    app.state.event_streams = ConcurrencyLimit(settings.max_event_streams, "event streams", "PARSER_MAX_EVENT_STREAMS")
    app.state.keys = keys
    app.state.allowance = allowance
    errors.install(app)
    app.include_router(parsing_routes.router)
    app.include_router(parsing_routes.form_router)
    app.include_router(openai.router)
    app.include_router(openai.reading)
    for dialect in (mistral, docling):
        app.include_router(dialect.router)
        app.include_router(dialect.form_router)
    for module in (routes, events, results):
        app.include_router(module.router)
    app.include_router(routes.capacity_router)
    app.include_router(results.signed)
    app.include_router(service_info.router)
    app.include_router(web_pages.router)
    app.add_middleware(Gate, settings=settings, admission=admission, metrics=metrics)
    if settings.otlp_endpoint:
        app.add_middleware(TracedRequests)
    if settings.allowed_origin_list:
        # Added last, so it comes first: what a refused page may read is that it was refused, and why.
        app.add_middleware(CORSMiddleware, **cors(settings.allowed_origin_list))
    openapi.describe(app)
    return app
