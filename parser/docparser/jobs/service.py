# SPDX-License-Identifier: Apache-2.0
"""The job service: storage, queue, runner and results, put together once per process; and what wakes the watchers of
jobs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from prometheus_client import CollectorRegistry, Gauge
from pydantic import ValidationError

from docparser import traces
from docparser.clients.allowance import Allowance
from docparser.clients.audit import AuditLog
from docparser.contract.schemas import ParseOptions
from docparser.errors import (
    DataDirFull,
    InvalidJob,
    InvalidRequest,
    NotReady,
    OutcomeUnknown,
    StorageDamaged,
    StorageUnavailable,
)
from docparser.jobs.callback_sender import CallbackMetrics, CallbackSender
from docparser.jobs.links import Links
from docparser.jobs.result import Damage, Results, callback_body
from docparser.jobs.runner import JobRunner
from docparser.jobs.storage import backend
from docparser.jobs.storage.backend import open_files
from docparser.jobs.storage.callbacks import CallbackQueue, Delivery
from docparser.jobs.storage.files import JobFiles
from docparser.jobs.storage.job_folders import JobFolders
from docparser.jobs.storage.queue import StepQueue
from docparser.jobs.storage.retention import Retention, remove_job
from docparser.jobs.storage.states import Job, JobState, Step, StepState
from docparser.jobs.storage.store import JobStore, QueueLimits
from docparser.jobs.storage.transaction import Database
from docparser.jobs.submission import Submission
from docparser.models.readiness import Readiness
from docparser.models.served_model import ServedModel
from docparser.parsing.service import ParseService
from docparser.settings import Settings

log = logging.getLogger(__name__)

WATCH_S = 1.0  # between two looks at the data directory
POLL_S = 0.2  # between two looks for changes of jobs
EACH_S = 0.005  # between two watchers: each asks the database, and five hundred at once would make everybody wait
# The columns of a job's row that its folder keeps too.
LASTING = "owner flow batch_id model file_name format options page_ranges created callback".split()


class JobService:
    """Call ``start`` and ``close`` once each, in the service's event loop."""

    def __init__(
        self,
        settings: Settings,
        service: ParseService,
        readiness: Readiness,
        allowance: Allowance,
        audit: AuditLog,
        model: ServedModel,
        registry: CollectorRegistry,
    ) -> None:
        """Opens the data directory. Raises StorageUnavailable, DataDirFull, NotReady if it cannot be used, or if
        callbacks are allowed and cannot be signed."""
        root = settings.data_dir.expanduser().absolute()
        self._settings = settings
        self._service = service
        self._readiness = readiness
        self.allowance = allowance
        self.audit = audit
        self.model = model
        try:
            self.files: JobFiles = open_files(root, settings.min_free_mib, settings.storage_url, settings.spool_dir)
            if settings.database_url:
                opened = backend.open_postgres(settings.database_url, self.files)
            elif isinstance(self.files, JobFolders):
                opened = backend.open_sqlite(self.files)
            else:
                raise NotReady(
                    f"PARSER_STORAGE_URL: {settings.storage_url} without PARSER_DATABASE_URL; expected both, since "
                    "only a database that is shared can tell what a shared bucket holds"
                )
            self.links = Links(self.files.small, settings.result_url_hours * 3600)
        except OSError as exc:
            raise NotReady(f"PARSER_DATA_DIR: {root} cannot be used ({exc}); name a writable directory") from exc
        self._database, self._processes, self.keeper = opened.database, opened.processes, opened.keeper
        self.store = JobStore(self._database, QueueLimits(settings.max_queued_pages, settings.max_queued_jobs))
        self.queue = StepQueue(self._database, self._processes)
        self.damage = Damage(self.queue, self.files, registry)
        self.results = Results(self.files, self.damage)
        self.changes = Changes(self._database)
        retention = Retention(
            self._database,
            self.files,
            age_s=settings.job_keep_hours * 3600,
            most_bytes=int(settings.job_keep_gib * 2**30),
            removed=lambda job_id: audit.record("job.removed", job=job_id, reason="retention"),
        )
        self.runner = JobRunner(
            settings, service, readiness, self.store, self.queue, self.files, retention, allowance, self.damage
        )
        self.callbacks = CallbackQueue(self._database, self._processes)
        told = CallbackMetrics(registry)
        self.sender = CallbackSender(settings, self.callbacks, self.files, self._callback_body, audit, told)
        readiness.add_condition("jobs", self.keeper.words)
        Gauge(
            "docparser_jobs_ready", "1 while jobs can be stored; /health/ready says why not.", registry=registry
        ).set_function(lambda: not self.keeper.trouble)
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._watch = asyncio.create_task(self._keep_watch())
        self.runner.start()
        self.sender.start()

    async def _keep_watch(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self.keeper.look)
            except Exception:
                log.exception("the data directory cannot be watched")
            await asyncio.sleep(WATCH_S)

    async def close(self) -> None:
        await asyncio.gather(self.runner.close(), self.sender.close())
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        self.changes.close()
        self._processes.close()
        self._database.close()
        self.keeper.close()
        self.files.close()

    def check_room(self) -> None:
        """Raises StorageUnavailable, DataDirFull, QueueFull. Called before a document is read."""
        self.keeper.check()
        self.files.check_room()
        self.store.check_room()

    async def check_presence(self) -> None:
        """Raises VlmUnavailable if the VLM has been away for so long that the operator wants no new jobs
        (PARSER_JOB_VLM_AWAY_MINUTES)."""
        if minutes := self._settings.job_vlm_away_minutes:
            await self._readiness.check_presence(minutes * 60)

    def purge(self, job_id: str, owner: str) -> None:
        """Remove an ended job with its document and results. Raises JobNotFound, InvalidJob while it runs."""
        job = self.store.job(job_id, owner)
        if not remove_job(self._database, self.files, job_id):
            raise InvalidJob(f"the job is {job.state}; cancel it first")

    def _callback_body(self, delivery: Delivery) -> bytes:
        return callback_body(delivery, self.links.path, self._settings.public_url)

    def keep(self, submission: Submission, owner: str, flow: str, base: str) -> str:
        """Keep a submission. When this returns, the job is on the disk. Returns the job's id. ``base`` is this
        service's address as the client reached it.

        Raises InvalidRequest for a task that the VLM does not know; StorageUnavailable, DataDirFull, QueueFull,
        KeyReused, QuotaExceeded.
        """
        self.keeper.check()
        self._service.notes(ParseOptions.model_validate(submission.options))
        earlier = self.store.find_key(owner, submission.idempotency_key, submission.fingerprint)
        if earlier:
            self.audit.record("job.submitted", job=earlier, outcome="repeated")
            return earlier
        self.allowance.check(owner, "pages")
        self.allowance.check(owner, "jobs")
        self.files.check_room()
        job = Job(
            id=secrets.token_hex(16),
            owner=owner,
            flow=flow,
            batch_id=submission.batch_id,
            model=submission.model,
            file_name=submission.file_name,
            format=submission.format,
            options=submission.options,
            page_ranges=submission.page_ranges,
            state=JobState.PENDING,
            error=None,
            created=time.time(),
            started=None,
            finished=None,
            document_pages=None,
            total_pages=None,
            callback={"url": submission.callback_url, "base": base} if submission.callback_url else None,
            trace=traces.carrier() or None,
        )
        record = {name: getattr(job, name) for name in LASTING} | {
            "fingerprint": submission.fingerprint,
            "idempotency_key": submission.idempotency_key,
        }
        size = self.files.keep_submission(job.id, submission.document, record)
        try:
            with self.allowance.spending(owner, "jobs"):
                kept = self.store.insert(
                    job, key=submission.idempotency_key, fingerprint=submission.fingerprint, size=size
                )
        except OutcomeUnknown:
            self.files.mark_unsure(job.id)  # `reconcile` removes it if its row does not appear
            raise
        except BaseException:
            self.files.remove(job.id)
            raise
        if kept != job.id:  # another request with the same key was faster
            self.allowance.give_back(owner, "jobs")
            self.files.remove(job.id)
        log.info("job %s: %s", kept, self.model.note(submission.model) or f"{self.model.served_name} reads the pages.")
        self.audit.record("job.submitted", job=kept, outcome="accepted" if kept == job.id else "repeated", bytes=size)
        return kept

    def notes(self, model: str, options: dict[str, Any]) -> list[str]:
        """Notes for the client about the model that it asked for, and about options without effect."""
        with contextlib.suppress(InvalidRequest, ValidationError):  # the job was submitted to another model
            told = self._service.notes(ParseOptions.model_validate(options))
            return [*filter(None, [self.model.note(model)]), *told]
        return []

    def read_by(self, job: Job, steps: list[Step]) -> str:
        """The VLM that reads the job's pages, or that read the first one of a job that has ended."""
        done = next((step for step in steps if step.state is StepState.DONE), None) if job.state.ended else None
        if done is not None and done.folder is not None:
            with contextlib.suppress(StorageDamaged, StorageUnavailable, KeyError):
                return self.files.page(job.id, done.folder, done.sha256)["models"]["vlm"]["model"]
        return self.model.served_name


class Changes:
    """Wakes the watchers of jobs when the database has changed, by this process or another. Polls it once for all of
    them, and only while there are any."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # data_version is relative to a connection, and connections belong to threads.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="changes")
        self._watchers: set[asyncio.Event] = set()
        self._polling: asyncio.Task | None = None

    def close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
        self._thread.shutdown(wait=False)

    @contextlib.contextmanager
    def watching(self) -> Iterator[asyncio.Event]:
        """An event that is set after each change; the watcher clears it."""
        event = asyncio.Event()
        self._watchers.add(event)
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll())
        try:
            yield event
        finally:
            self._watchers.discard(event)

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        last: object = None
        while self._watchers:
            try:
                version: object = await loop.run_in_executor(self._thread, self._database.version)
            except (StorageUnavailable, DataDirFull):
                version = last
            if version != last:
                last = version
                for event in [*self._watchers]:
                    event.set()
                    await asyncio.sleep(EACH_S)
            await asyncio.sleep(POLL_S)
