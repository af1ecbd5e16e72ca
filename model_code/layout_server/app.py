# SPDX-License-Identifier: Apache-2.0
"""HTTP: `POST /v1/layout`, `GET /health`, `GET /metrics`. For the bundle's own network: it knows no keys."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from layout_server.batching import Batcher, DeviceFailed, Full
from layout_server.model import LayoutModel, Page
from layout_server.settings import Settings
from layout_wire import CONTENT_TYPE, MODEL_HEADER, PATH, BadMessage, full_image, pack, unpack

#: Two float32 images of 800 x 800.
MOST_BODY_BYTES = 16 << 20
BODY_TIMEOUT_S = 10.0


class BadRequest(Exception):
    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words


class LayoutService:
    def __init__(self, model: LayoutModel, settings: Settings) -> None:
        self._model, self._settings = model, settings
        self.registry = registry = CollectorRegistry()
        self._pages = Counter("layout_pages", "Pages answered.", registry=registry)
        self._refused = Counter("layout_refused", "Requests refused, by status.", ["status"], registry=registry)
        self._seconds = Histogram("layout_page_seconds", "From a page's arrival to its answer.", registry=registry)
        buckets = (1, 2, 4, 8, 16, 32)
        self._batches = Histogram("layout_batch_pages", "Pages of each call.", buckets=buckets, registry=registry)
        waiting = Gauge("layout_waiting_pages", "Pages that wait for the device.", registry=registry)
        Gauge("layout_device", "1 for the device that is used.", ["device"], registry=registry).labels(
            settings.device
        ).set(1)
        self.batcher = Batcher(
            model.run, model.most_pages, settings.wait_s, settings.most_waiting, self._batches.observe
        )
        waiting.set_function(lambda: self.batcher.waiting)

    async def find(self, request: Request) -> Response:
        try:
            with self._seconds.time():
                page = await self._read(request)
                results = await self._found(page, request)
        except BadRequest as exc:
            return self._refuse(exc.status, exc.words)
        except Full:
            return self._refuse(503, f"{self.batcher.waiting} pages wait already (LAYOUT_QUEUE); try again later")
        except DeviceFailed:
            return self._refuse(500, "the device failed; this server ends and is started again")
        self._pages.inc()
        return Response(pack({str(index): value for index, value in enumerate(results)}), media_type=CONTENT_TYPE)

    async def health(self, request: Request) -> Response:
        if self.batcher.failed is not None:
            return PlainTextResponse("the device failed", 503)
        told = {"model": self._model.checksum, "device": self._settings.device, "batch": self._model.most_pages}
        return JSONResponse(told)

    async def metrics(self, request: Request) -> Response:
        return Response(generate_latest(self.registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    def _refuse(self, status: int, words: str) -> Response:
        self._refused.labels(str(status)).inc()
        headers = {"Retry-After": "1"} if status == 503 else {}
        return JSONResponse({"error": words}, status, headers)

    async def _read(self, request: Request) -> Page:
        """Raises BadRequest."""
        wanted = request.headers.get(MODEL_HEADER)
        if wanted != self._model.checksum:
            raise BadRequest(
                409,
                f"{MODEL_HEADER} is {wanted!r}; this server has the model {self._model.checksum}: give both the "
                "same layout model",
            )
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                return self._checked(unpack(await _body(request)))
        except TimeoutError:
            raise BadRequest(408, f"the body did not arrive within {BODY_TIMEOUT_S:.0f} s") from None
        except ClientDisconnect:
            raise BadRequest(400, "the client went away") from None
        except BadMessage as exc:
            raise BadRequest(400, f"body: {exc}") from None

    async def _found(self, page: Page, request: Request) -> list[np.ndarray]:
        """The page's results. If its client leaves, its place in the queue is free at once, and BadRequest is
        raised."""
        finding = asyncio.create_task(self.batcher.find(page))
        leaving = asyncio.ensure_future(request.receive())  # after the body, only http.disconnect can come
        try:
            await asyncio.wait((finding, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not finding.done():
                raise BadRequest(400, "the client went away")
            return finding.result()
        finally:
            finding.cancel()
            leaving.cancel()

    def _checked(self, arrays: dict[str, np.ndarray]) -> Page:
        """The arrays of a page, checked because bad ones could make the device fail. Raises BadRequest."""
        if arrays.keys() != self._model.shapes.keys():
            raise BadRequest(400, f"body: arrays {sorted(arrays)}; expected {sorted(self._model.shapes)}")
        page = {}
        for name, value in arrays.items():
            value = full_image(value) if name == "image" else value
            if value.shape != self._model.shapes[name] or value.dtype != np.float32:
                shape = list(self._model.shapes[name])
                raise BadRequest(400, f"body: {name} is {value.dtype} {list(value.shape)}; expected float32 {shape}")
            if not np.isfinite(value).all() or (name != "image" and not (1e-6 < value).all()):
                raise BadRequest(
                    400, f"body: {name} has a value that no page has; expected finite values, and sizes above 0"
                )
            page[name] = value
        return page


async def _body(request: Request) -> bytes:
    """Raises BadRequest for one that is too large."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BODY_BYTES:
            raise BadRequest(413, f"body: more than {MOST_BODY_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


def make_app(service: LayoutService) -> Starlette:
    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        work = asyncio.create_task(service.batcher.work())
        # A failed device does not recover within the process; supervisord starts a new process.
        work.add_done_callback(lambda done: None if done.cancelled() else os.kill(os.getpid(), signal.SIGTERM))
        yield
        work.cancel()

    routes = [
        Route(PATH, service.find, methods=["POST"]),
        Route("/health", service.health),
        Route("/metrics", service.metrics),
    ]
    return Starlette(routes=routes, lifespan=lifespan)
