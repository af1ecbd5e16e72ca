# SPDX-License-Identifier: Apache-2.0
"""The parser's own page work in a process of Ray: its scheduler, its worker process and its rules, without HTTP.

A page that ends its worker twice, or takes too long, is an error of that page; this process goes on.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import json
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from docparser.contract.schemas import ParseOptions
from docparser.documents.spool import Document
from docparser.errors import NotReady
from docparser.models.served_model import ServedModel
from docparser.parsing.fair_queue import Flow
from docparser.parsing.metrics import Metrics
from docparser.parsing.pool import WorkerPool
from docparser.parsing.result import BLOCK_PAUSE_S, BLOCK_TRIES, EMPTY_ENTRY, DocumentReport, PageOutcome
from docparser.parsing.scheduler import PageScheduler
from docparser.parsing.service import ParseService
from docparser.settings import Settings

CHECK_S = 0.2


@dataclasses.dataclass(frozen=True)
class PageRead:
    """A page as the parser answers for it: ``result`` of a request with this page alone (``/layout-parsing``).
    ``seconds`` is the sum of its stages."""

    number: int
    result: dict[str, Any]
    seconds: float


class PageService:
    """Any thread may call ``read``."""

    def __init__(self, settings: Settings, options: dict[str, Any], models: dict[str, Any], *, demo: bool) -> None:
        """``models`` are the weights as results name them. ``demo``: the VLM has the demo weights.

        Raises NotReady once the worker has failed to load its models.
        """
        self._settings = settings
        self._options = ParseOptions.model_validate(options)
        self._models = models
        self._pool = WorkerPool(settings)
        self._scheduler = PageScheduler(settings, self._pool)
        self._service = ParseService(
            settings,
            self._scheduler,
            Metrics(self._pool, self._scheduler),
            ServedModel.of(settings).accepted(),
            _constant(demo),
        )
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="pages", daemon=True).start()
        self._loop.call_soon_threadsafe(self._scheduler.start)
        self._wait_until_ready()

    def read(self, path: Path, format: str, numbers: range) -> list[PageRead]:
        """Pages ``numbers`` (from 1) of a document, at the same time. Raises VlmUnavailable, NotReady."""
        document = Document(str(path), format)
        return self._run(self._read_all(document, numbers))

    def close(self) -> None:
        self._run(self._scheduler.close())
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        future: concurrent.futures.Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self._settings.start_timeout_s
        while not self._pool.ready:
            broken = self._pool.not_ready_because
            if self._pool.workers[0].state.name == "BROKEN" or time.monotonic() > deadline:
                raise NotReady(f"no worker is ready: {broken}")
            time.sleep(CHECK_S)

    async def _read_all(self, document: Document, numbers: range) -> list[PageRead]:
        flow = Flow(document.path)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._read(document, number, flow)) for number in numbers]
        except BaseExceptionGroup as several:  # of `except*`, Python 3.11.2 makes a group again
            raise several.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _read(self, document: Document, number: int, flow: Flow) -> PageRead:
        outcome = await self._page(document, number, flow)
        for _ in range(BLOCK_TRIES - 1):
            if not outcome.vlm_failed_on_some_block:
                break
            await asyncio.sleep(BLOCK_PAUSE_S)
            outcome = await self._page(document, number, flow)
        if (failure := outcome.vlm_failure) is not None:
            outcome = PageOutcome(outcome.index, error=failure)
        return self._told(document, number, outcome)

    async def _page(self, document: Document, number: int, flow: Flow) -> PageOutcome:
        """Wait for a worker that cannot load its models now, as long as for a VLM that is away."""
        deadline = time.monotonic() + self._settings.vlm_patience_s
        while True:
            try:
                return await self._service.page(document, number - 1, self._options, flow, f"corpus-{number}")
            except NotReady:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(CHECK_S)

    def _told(self, document: Document, number: int, outcome: PageOutcome) -> PageRead:
        alone = dataclasses.replace(outcome, index=0)
        report = DocumentReport(document.format, range(1))
        report.add(alone)
        parsed = outcome.parsed
        return PageRead(
            number,
            {
                "layoutParsingResults": [json.loads(parsed.entry if parsed is not None else EMPTY_ENTRY)],
                "dataInfo": report.data_info(),
                "docparser": {"models": self._models, **report.as_dict()},
            },
            round(sum(parsed.seconds.values()), 3) if parsed is not None else 0.0,
        )


def _constant(value: bool) -> Callable[[], Coroutine[Any, Any, bool]]:
    async def told() -> bool:
        return value

    return told
