# SPDX-License-Identifier: Apache-2.0
"""The app factory."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI

from docparser import __version__, api_page, health, http_errors, parsing
from docparser.api_keys import ApiKeys
from docparser.body_limit import BodyLimit
from docparser.convert import routes as convert_routes
from docparser.gate import Gate
from docparser.jobs import capacity, events, result_routes
from docparser.jobs import routes as job_routes
from docparser.jobs.service import JobService
from docparser.metrics import Metrics
from docparser.models import Models
from docparser.pool import WorkerPool
from docparser.scheduler import PageScheduler
from docparser.service import ParseService
from docparser.settings import Settings
from docparser.source import remove_stale
from docparser.web import routes as web_routes


def create_app(settings: Settings | None = None) -> FastAPI:
    """The service. Its workers start with the server (ASGI lifespan), not here. Raises NotReady if its keys are wrong,
    StorageDamaged or StorageFull if the data directory cannot be used."""
    settings = settings or Settings()
    keys = ApiKeys.of(settings)
    pool = WorkerPool(settings)
    scheduler = PageScheduler(settings, pool)
    metrics = Metrics(pool, scheduler)
    models = Models(settings, pool)
    service = ParseService(settings, scheduler, metrics)
    jobs = JobService(settings, scheduler, service, models)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        remove_stale(settings.spool_dir)
        scheduler.start()
        await jobs.start()
        try:
            yield
        finally:
            await jobs.close()
            await scheduler.close()
            await models.close()
            await service.close()

    app = FastAPI(
        title="Document parser",
        version=__version__,
        description="PaddleOCR-VL behind PaddleX's `/layout-parsing` contract: images and PDFs to Markdown and JSON.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.settings = settings
    app.state.models = models
    app.state.service = service
    app.state.jobs = jobs
    app.state.metrics = metrics
    http_errors.install(app)
    app.include_router(parsing.router)
    app.include_router(convert_routes.router)
    for module in (job_routes, events, result_routes, capacity):
        app.include_router(module.router)
    app.include_router(result_routes.signed)
    app.include_router(web_routes.router)
    app.include_router(health.router)
    app.include_router(api_page.router)
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_mib << 20)
    app.add_middleware(Gate, settings=settings, keys=keys, metrics=metrics)  # the last one added is the first one met
    return app
