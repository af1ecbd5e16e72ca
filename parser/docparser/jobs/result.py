# SPDX-License-Identifier: Apache-2.0
"""A job as clients see it: its state, its pages as JSONL, and the body of the callback that tells its end.

Each line is ``{"result": {"layoutParsingResults": [page], ...}}`` with one page; the first line also has ``dataInfo``.
A failed page keeps its place with an empty entry; the reason is under ``docparser`` as in ``/layout-parsing``.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

from prometheus_client import CollectorRegistry, Counter

from docparser.contract import job_answers
from docparser.contract.answers import DataInfo, ModelsInUse, PageEntry, PageError, PageReport, PageSize
from docparser.contract.job_answers import CallbackBody, CallbackReport, JobDetails, JobPage, JobReport
from docparser.errors import StorageDamaged, kind_of
from docparser.jobs.pages import with_addresses
from docparser.jobs.storage.callbacks import CallbackState, Delivery, Told
from docparser.jobs.storage.files import JobFiles, Pictures
from docparser.jobs.storage.queue import Claim, StepQueue
from docparser.jobs.storage.states import Counts, Job, JobState, Step, StepState
from docparser.parsing.result import EMPTY_ENTRY, info_of

log = logging.getLogger(__name__)


class Damage:
    def __init__(self, queue: StepQueue, files: JobFiles, registry: CollectorRegistry) -> None:
        self._queue = queue
        self._files = files
        self._count = Counter(
            "docparser_damaged_pages", "Stored pages that were found not to be what was written.", registry=registry
        )

    def found(self, job_id: str, step: Step, words: str) -> Step | None:
        """A page was damaged when its result was read. It fails, and can be retried. If its step changed meanwhile, it
        does not fail here, and the step is returned as it is now. Raises StorageUnavailable if the storage is away,
        JobNotFound if the job was removed."""
        self._files.make_sure()
        newer = self._queue.damaged(job_id, step, words)
        if newer is None:
            self._say(job_id, step.number, words)
        return newer

    def before_joining(self, claim: Claim, pages: dict[int, str]) -> bool:
        """These pages, by number and with the reason, were damaged before joining. They are read again, and joined
        after that. False if the step no longer belongs to this process."""
        for number, words in pages.items():
            self._say(claim.job.id, number, words)
        return self._queue.read_again(claim, pages)

    def _say(self, job_id: str, number: int, words: str) -> None:
        log.error("job %s, page %d: %s", job_id, number, words)
        self._count.inc()


PathOf = Callable[[str, str], str]
"""Job id and name -> the address of a result below the service's root."""
# The hosted API knows four states; a cancelled job counts as failed, and its error says that it was cancelled.
API_STATES: dict[JobState, job_answers.JobStateName] = {
    JobState.PENDING: "pending",
    JobState.RUNNING: "running",
    JobState.DONE: "done",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "failed",
}


def callback_body(delivery: Delivery, path: PathOf, public_url: str) -> bytes:
    """The JSON of a callback: ``type``, ``timestamp`` (of the job's end) and ``data``, as in the job's state. No
    content of the document, and no name of a file."""
    job, counts = delivery.job, delivery.counts
    assert job.callback is not None, "only jobs with one have deliveries"
    base = (public_url or job.callback["base"]).rstrip("/")
    moment = timestamp(job.finished or delivery.created)
    result = base + path(job.id, "result.jsonl")
    done = job.state is JobState.DONE
    data = describe(job, counts, None, result if done else None)
    if counts.ended and not done:
        data["docparser"]["partialUrl"] = result
    named = {key: value for key, value in data.items() if key != "fileName"}
    body = cast(CallbackBody, {"type": f"job.{delivery.event}", "timestamp": moment, "data": named})
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def describe_told(job: Job, told: Told | None) -> CallbackReport | None:
    """``docparser.callback`` of the job's state: what became of its newest callback; None for a job without one."""
    if job.callback is None:
        return None
    if told is None:
        return {"state": "waiting", "attempts": 0}
    found: CallbackReport = {"type": f"job.{told.event}", "state": str(told.state), "attempts": told.attempts}
    if told.attempts and told.state is not CallbackState.OVER:
        found["lastStatus"] = told.status
    if told.error:
        found["lastError"] = told.error
    if told.state is CallbackState.QUEUED and told.attempts:
        found["nextTime"] = timestamp(told.not_before)
    return found


class Results:
    def __init__(self, files: JobFiles, damage: Damage) -> None:
        self._files = files
        self._damage = damage

    def lines(self, job: Job, steps: list[Step], base: str, models: ModelsInUse) -> Iterator[bytes]:
        """The JSONL, line by line: the pages that have ended, in order. ``base``: as ``page`` has it."""
        info: DataInfo | None = data_info(job, steps)
        for step in steps:
            if step.state in (StepState.DONE, StepState.FAILED):
                result, _ = self.page(job, step, base, models)
                if info:
                    result["dataInfo"], info = info, None
                yield json.dumps({"result": result}, ensure_ascii=False).encode("utf-8", "replace") + b"\n"

    def page(
        self, job: Job, step: Step, base: str, models: ModelsInUse, pictures: Pictures | None = None
    ) -> tuple[JobPage, dict[str, Path]]:
        """The ``result`` of one page that has ended; and its files, where ``pictures`` looks them up. ``base`` begins
        the addresses of its pictures.

        Raises JobNotFound if the job was removed meanwhile."""
        copies: dict[str, Path] = {}
        report: PageReport = {"page": step.number}
        entry: PageEntry = json.loads(EMPTY_ENTRY)
        error: PageError | None = {
            "kind": kind_of(step.kind),
            "message": step.error,
        }
        if step.state is StepState.DONE:
            assert step.folder is not None, "the store records the folder with the state"
            try:
                stored = self._files.page(job.id, step.folder, step.sha256)
                if pictures is not None:
                    copies = pictures(job.id, step.folder)
                    self._files.check_copies(step.folder, stored, copies)
            except StorageDamaged as exc:
                newer = self._damage.found(job.id, step, str(exc))
                if newer is not None and newer.state in (StepState.DONE, StepState.FAILED):
                    return self.page(job, newer, base, models, pictures)
                copies = {}
                error = {"kind": exc.kind, "message": str(exc)}
            else:
                entry = cast(PageEntry, with_addresses(stored["entry"], f"{base}pages/{step.number}/"))
                models, error = stored["models"], None
                if stored["block_notes"]:
                    report["blocks"] = stored["block_notes"]
                if stored["page_notes"]:
                    report["notes"] = stored["page_notes"]
        if error:
            report["error"] = error
        partial = job.state.incomplete or "error" in report or "blocks" in report
        page: JobPage = {
            "layoutParsingResults": [entry],
            "docparser": {"models": models, "partial": partial, "pages": [report]},
        }
        return page, copies


def describe(job: Job, counts: Counts, steps: list[Step] | None, result_url: str | None) -> job_answers.Job:
    """``data`` of ``GET /api/v2/ocr/jobs/{id}``; ours beyond the hosted API's is under ``docparser``."""
    known: JobDetails = {}
    if job.batch_id:
        known["batchId"] = job.batch_id
    if job.total_pages is not None:
        known["extractProgress"] = {"totalPages": job.total_pages, "extractedPages": counts.done}
        if job.started is not None:
            known["extractProgress"]["startTime"] = timestamp(job.started)
        if job.finished is not None:
            known["extractProgress"]["endTime"] = timestamp(job.finished)
    if job.error:
        known["errorMsg"] = job.error
    if result_url:
        known["resultUrl"] = {"jsonUrl": result_url}
    report: JobReport = {
        "cancelled": job.state is JobState.CANCELLED,
        "partial": job.state.incomplete or bool(counts.failed),
        "pages": {"queued": counts.queued, "running": counts.running, "done": counts.done, "failed": counts.failed},
    }
    if steps is not None:
        report["failedPages"] = [
            {"page": step.number, "kind": kind_of(step.kind), "message": step.error}
            for step in steps
            if step.state is StepState.FAILED
        ]
    return {
        "jobId": job.id,
        "state": API_STATES[job.state],
        "model": job.model,
        "fileName": job.file_name,
        "createTime": timestamp(job.created),
        **known,
        "docparser": report,
    }


def data_info(job: Job, steps: list[Step]) -> DataInfo:
    """As ``dataInfo`` of ``/layout-parsing``, of the pages that the job is about; 0 where a size is not known."""
    sizes: list[PageSize] = [{"width": step.width or 0, "height": step.height or 0} for step in steps]
    return info_of(job.format, sizes, job.document_pages or 1)


def timestamp(moment: float) -> str:
    """ISO 8601, UTC, to the millisecond."""
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))
    return f"{text}.{int(moment % 1 * 1000):03d}Z"
