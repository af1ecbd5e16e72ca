# SPDX-License-Identifier: Apache-2.0
"""Everything that jobs need, put together once per process."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time

from fastapi import Request

from docparser.errors import NotReady
from docparser.jobs import recovery
from docparser.jobs.changes import Changes
from docparser.jobs.files import JobFiles
from docparser.jobs.links import Links
from docparser.jobs.processes import Processes
from docparser.jobs.queue import StepQueue
from docparser.jobs.result import Results
from docparser.jobs.retention import Retention
from docparser.jobs.runner import JobRunner
from docparser.jobs.states import Job, JobState
from docparser.jobs.store import JobStore, Limits
from docparser.jobs.submission import Submission
from docparser.models import Models
from docparser.scheduler import PageScheduler
from docparser.service import ParseService
from docparser.settings import Settings
from docparser.url_source import UrlSource


class JobService:
    """Opens the data directory; raises StorageDamaged, StorageFull, NotReady if it cannot be used. ``start`` and ``close`` once,
    in the service's event loop."""

    def __init__(self, settings: Settings, scheduler: PageScheduler, service: ParseService, models: Models) -> None:
        root = settings.data_dir.expanduser().absolute()
        self._settings = settings
        try:
            self.files = JobFiles(root, settings.min_free_mib)
            self._database = recovery.open_database(self.files)
            self._in_use = recovery.hold(root)
            self._processes = Processes(root / "processes")
            self.links = Links(root, settings.result_url_hours * 3600)
        except OSError as exc:
            raise NotReady(f"PARSER_DATA_DIR: {root} cannot be used ({exc}); name a writable directory") from exc
        self.store = JobStore(self._database, Limits(settings.max_queued_pages, settings.max_queued_jobs))
        self.queue = StepQueue(self._database, self._processes)
        self.results = Results(self.files, self.queue)
        self.changes = Changes(self._database)
        self.urls = UrlSource(settings)
        self.models = models
        retention = Retention(
            self._database, self.files, age_s=settings.job_keep_hours * 3600,
            most_bytes=int(settings.job_keep_gib * 2**30),
        )  # fmt: skip
        self.runner = JobRunner(settings, scheduler, service, models, self.store, self.queue, self.files, retention)

    async def start(self) -> None:
        await asyncio.to_thread(recovery.remove_rubbish, self._database, self.files)
        self.runner.start()

    async def close(self) -> None:
        await self.runner.close()
        self.changes.close()
        await self.urls.close()
        self._processes.close()
        self._database.close()
        self._in_use.close()

    def keep(self, submission: Submission, owner: str, flow: str) -> str:
        """Takes a submission in; when this returns, it survives anything that its disk survives. Returns the job's id.
        Raises StorageFull, QueueFull, KeyReused."""
        earlier = self.store.find_key(owner, submission.idempotency_key, submission.fingerprint)
        if earlier:
            return earlier
        self.files.check_room()
        job = Job(
            id=secrets.token_hex(16), owner=owner, flow=flow, batch_id=submission.batch_id, model=submission.model,
            file_name=submission.file_name, format=submission.format, options=submission.options,
            page_ranges=submission.page_ranges, state=JobState.PENDING, error=None, created=time.time(),
            started=None, finished=None, document_pages=None, total_pages=None,
        )  # fmt: skip
        lasting = ("owner", "flow", "batch_id", "model", "file_name", "format", "options", "page_ranges", "created")
        record = {name: getattr(job, name) for name in lasting} | {"fingerprint": submission.fingerprint}
        size = self.files.keep_submission(job.id, submission.document, record)
        try:
            kept = self.store.insert(job, key=submission.idempotency_key, fingerprint=submission.fingerprint, size=size)
        except BaseException:
            self.files.remove(job.id)
            raise
        if kept != job.id:  # the same key, at the same moment
            self.files.remove(job.id)
        return kept

    def base_url(self, request: Request) -> str:
        """Where clients reach this service, without a slash at the end."""
        return (self._settings.public_url or str(request.base_url)).rstrip("/")

    def result_url(self, request: Request, job_id: str, name: str = "result.jsonl") -> str:
        return self.base_url(request) + self.links.path(job_id, name)

    @property
    def served_model(self) -> str:
        return self._settings.vlm_model_name


def identity(request: Request) -> tuple[str, str]:
    """Who asks: ``owner``, whose jobs may be seen, and ``flow``, who takes turns.

    With API keys both are the key. Without, everyone who knows a job's id may see it, and clients are told apart by
    address and by the token that they happen to send.
    """
    key = getattr(request.state, "key_id", "")
    if key:
        return key, key
    token = hashlib.sha256(request.headers.get("authorization", "").encode()).hexdigest()[:12]
    return "", f"{request.client.host if request.client else ''} {token}"
