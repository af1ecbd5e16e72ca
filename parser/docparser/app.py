# SPDX-License-Identifier: Apache-2.0
"""The app factory."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI

from docparser import __version__, api_page, health, http_errors, parsing
from docparser.body_limit import BodyLimit
from docparser.models import Models
from docparser.pool import WorkerPool
from docparser.service import ParseService, remove_stale
from docparser.settings import Settings


def create_app(settings: Settings | None = None) -> FastAPI:
    """The service. Its workers start with the server (ASGI lifespan), not here."""
    settings = settings or Settings()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        remove_stale(settings.spool_dir)
        app.state.pool.start()
        try:
            yield
        finally:
            app.state.pool.close()
            await app.state.models.close()

    app = FastAPI(
        title="Document parser",
        version=__version__,
        description="PaddleOCR-VL behind PaddleX's `/layout-parsing` contract: images and PDFs to Markdown and JSON.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.settings = settings
    app.state.pool = WorkerPool(settings)
    app.state.models = Models(settings, app.state.pool)
    app.state.service = ParseService(settings, app.state.pool)
    http_errors.install(app)
    app.include_router(parsing.router)
    app.include_router(health.router)
    app.include_router(api_page.router)
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_mib << 20)
    return app
