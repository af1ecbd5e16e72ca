# SPDX-License-Identifier: Apache-2.0
"""Works on jobs: takes steps from the queue in the database, has the page scheduler do them, keeps what comes out.

Every service process that shares the data directory runs one. A step is kept when its page is on the disk and the
database says so; until then it belongs to this process, and to another if this one dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from docparser.errors import NotReady, ParserError, VlmUnavailable
from docparser.jobs import pages
from docparser.jobs.errors import InvalidJob, StorageDamaged, StorageFull
from docparser.jobs.files import JobFiles
from docparser.jobs.page_ranges import select
from docparser.jobs.queue import Claim, PageRecord, StepQueue
from docparser.jobs.retention import Retention
from docparser.jobs.states import JOINING, OPENING
from docparser.jobs.store import JobStore
from docparser.models import Models
from docparser.options import PageOptions, page_options
from docparser.scheduler import Flow, PageScheduler
from docparser.schemas import ParseRequest
from docparser.service import ParseService
from docparser.settings import Settings
from docparser.source import Document
from docparser.tasks import CountPages, JoinPages

log = logging.getLogger(__name__)

LOOK_S = 0.5  # how often it looks for work and cancelled jobs that another process was told of
SLOW_LOOK_S = 5.0  # for dead processes
SWEEP_S = 60.0
PAUSE_S = 1.0  # between two looks whether models or disk are back
BLOCK_TRIES = 3  # of a page of which the VLM did not answer for some blocks
BLOCK_PAUSE_S = 5.0
VLM_FAILED = ("failed", "timeout")  # kinds of notes: the call failed; the block itself was not refused

# The service is not able to work now; the page is not to blame.
LATER = (NotReady, VlmUnavailable, StorageFull)


class JobRunner:
    """``start`` and ``close`` once, in the service's event loop. ``wake`` tells it of new work at once."""

    def __init__(
        self, settings: Settings, scheduler: PageScheduler, service: ParseService, models: Models, store: JobStore,
        queue: StepQueue, files: JobFiles, retention: Retention,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._scheduler = scheduler
        self._service = service
        self._models = models
        self._store = store
        self._queue = queue
        self._files = files
        self._retention = retention
        self._most = settings.workers * settings.pages_in_flight
        self._running: dict[asyncio.Task, Claim] = {}
        self._flows: dict[str, Flow] = {}
        self._awake = asyncio.Event()
        self._paused_by = ""
        self._loops: list[asyncio.Task] = []

    def start(self) -> None:
        for loop in (self._work(), self._every(LOOK_S, self._drop_cancelled), self._every(SLOW_LOOK_S, self._reclaim),
                     self._every(SWEEP_S, self._sweep)):  # fmt: skip
            self._loops.append(asyncio.create_task(loop))

    async def close(self) -> None:
        """What is being worked on is given up; it goes back to the queue."""
        tasks = [*self._loops, *self._running]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        self._awake.set()

    @property
    def paused_by(self) -> str:
        """What keeps this process from working on jobs, in words; "" if nothing does."""
        return self._paused_by

    async def _work(self) -> None:
        while True:
            try:
                if self._paused_by:
                    await self._wait_until_able()
                while len(self._running) < self._most and (claim := await asyncio.to_thread(self._claim)):
                    task = asyncio.create_task(self._do(claim))
                    self._running[task] = claim
                    task.add_done_callback(self._ended)
            except asyncio.CancelledError:
                raise
            except StorageFull as exc:
                self._pause(exc)
            except Exception:
                log.exception("the queue of jobs cannot be read")
                await asyncio.sleep(PAUSE_S)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._awake.wait(), LOOK_S)
            self._awake.clear()

    def _claim(self) -> Claim | None:
        self._files.check_room()
        return self._queue.claim()

    def _ended(self, task: asyncio.Task) -> None:
        self._running.pop(task, None)
        self.wake()

    async def _wait_until_able(self) -> None:
        """Begins nothing before the models, and room on the disk, are there: a page that failed for want of them would
        be parsed once more each time."""
        while self._paused_by:
            states, trouble = await self._models.readiness()
            try:
                await asyncio.to_thread(self._files.check_room)
            except StorageFull as exc:
                trouble.append(str(exc))
            self._paused_by = " ".join(trouble)
            if self._paused_by:
                await asyncio.sleep(PAUSE_S)
        log.info("jobs go on")

    def _pause(self, exc: ParserError) -> None:
        if not self._paused_by:
            log.warning("jobs pause: %s", exc)
        self._paused_by = str(exc)

    async def _do(self, claim: Claim) -> None:
        """One step, whatever becomes of it. Raises nothing but CancelledError."""
        options = page_options(ParseRequest.model_validate({**claim.job.options, "file": ""}),
                               visualize_by_default=self._settings.visualize)  # fmt: skip
        join = options.restructure is not None
        try:
            if claim.number == OPENING:
                await self._open(claim, join)
            elif claim.number == JOINING:
                await self._join(claim, options)
            else:
                await self._parse(claim, options, join)
        except asyncio.CancelledError:
            # The job was cancelled, or the service ends. A thread may still be writing; the database decides.
            await asyncio.shield(asyncio.to_thread(self._give_back, claim))
            raise
        except LATER as exc:
            self._pause(exc)
            await self._keep_trying(self._queue.put_back, claim, 0.0, count=False)
        except ParserError as exc:
            await self._keep_trying(self._queue.fail, claim, type(exc).__name__, str(exc), join=join)
        except Exception:
            log.exception("job %s, step %d", claim.job.id, claim.number)
            words = "The parser failed on this page; the operator finds the details in its log."
            await self._keep_trying(self._queue.fail, claim, "InternalError", words, join=join)

    def _give_back(self, claim: Claim) -> None:
        with contextlib.suppress(StorageFull, StorageDamaged):
            self._queue.put_back(claim, 0.0, count=False)

    async def _keep_trying(self, method: Any, *arguments: Any, **options: Any) -> None:
        """Says to the database how a step ended; a full disk may take the database with it for a while."""
        while True:
            try:
                return await asyncio.to_thread(method, *arguments, **options)
            except StorageFull as exc:
                self._pause(exc)
                await asyncio.sleep(PAUSE_S)

    async def _open(self, claim: Claim, join: bool) -> None:
        document = self._document(claim)
        count = await self._scheduler.submit(CountPages(document), self._flow(claim))
        numbers = select(claim.job.page_ranges, count)
        await asyncio.to_thread(self._queue.opened, claim, count, numbers, join=join)

    async def _parse(self, claim: Claim, options: PageOptions, join: bool) -> None:
        outcomes = self._service.pages(
            self._document(claim), range(claim.number - 1, claim.number), options, self._flow(claim),
            f"job-{claim.job.id}",
        )  # fmt: skip
        async with contextlib.aclosing(outcomes):
            outcome = await anext(outcomes)
        if outcome.error is not None:
            raise outcome.error
        if claim.attempts < BLOCK_TRIES and any(note.get("kind") in VLM_FAILED for note in outcome.parsed.notes):
            return await asyncio.to_thread(self._queue.put_back, claim, BLOCK_PAUSE_S, count=True)
        if outcome.vlm_failed:  # there is nothing of the page to keep
            words = f"The VLM server failed on every block: {outcome.parsed.notes[0]['message']}"
            return await asyncio.to_thread(self._queue.fail, claim, "VlmUnavailable", words, join=join)
        models = await self._models.in_use()
        await asyncio.to_thread(self._keep, claim, outcome.parsed, models, join)

    def _keep(self, claim: Claim, parsed: Any, models: dict, join: bool) -> None:
        page, files = pages.pack(parsed, claim.number, models)
        folder, sha256, size = self._files.keep_page(claim.job.id, claim.number, page, files)
        record = PageRecord(folder, sha256, page["width"], page["height"], size)
        if not self._queue.finish(claim, record, join=join):
            self._files.remove_page(claim.job.id, folder)

    async def _join(self, claim: Claim, options: PageOptions) -> None:
        steps = [step for step in self._store.look(claim.job.id)[2] if step.folder]
        read = [self._files.read_page(claim.job.id, step.folder, step.sha256) for step in steps]
        task = JoinPages([files[pages.FROZEN] for _, files in read], options.answer, options.restructure)
        texts = await self._scheduler.submit(task, self._flow(claim))
        records = {}
        for step, (page, files), text in zip(steps, read, texts, strict=True):
            new, files = pages.repack(page, text, files)
            folder, sha256, size = await asyncio.to_thread(self._files.keep_page, claim.job.id, step.number, new, files)
            records[step.number] = PageRecord(folder, sha256, new["width"], new["height"], size)
        await asyncio.to_thread(self._queue.joined, claim, records)
        for step in steps:
            self._files.remove_page(claim.job.id, step.folder)

    def _document(self, claim: Claim) -> Document:
        path = self._files.document(claim.job.id)
        if not path.exists():
            raise InvalidJob("the document is gone from PARSER_DATA_DIR; submit it again")
        return Document(str(path), claim.job.format)

    def _flow(self, claim: Claim) -> Flow:
        """One per client: its jobs together have the weight of one request."""
        return self._flows.setdefault(claim.job.flow, Flow())

    async def _drop_cancelled(self) -> None:
        claims = list(self._running.values())
        gone = await asyncio.to_thread(self._queue.cancelled, claims) if claims else []
        for task, claim in list(self._running.items()):
            if claim in gone:
                task.cancel()
        for flow in [name for name in self._flows if name not in {c.job.flow for c in self._running.values()}]:
            del self._flows[flow]

    async def _reclaim(self) -> None:
        count = await asyncio.to_thread(self._queue.reclaim)
        if count:
            log.warning("%d steps of a process that ended are begun again", count)
            self.wake()

    async def _sweep(self) -> None:
        removed = await asyncio.to_thread(self._retention.sweep)
        if removed:
            log.info("retention: %d jobs removed", removed)

    async def _every(self, seconds: float, action: Any) -> None:
        while True:
            try:
                await action()
            except ParserError as exc:
                log.error("%s", exc)
            except Exception:
                log.exception("%s", action.__name__)
            await asyncio.sleep(seconds)
