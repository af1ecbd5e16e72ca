# SPDX-License-Identifier: Apache-2.0
"""States of jobs and of their steps, and the records that are made from their rows."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Sequence
from typing import Any

from docparser.jobs.storage.transaction import Row, Transaction


class JobState(enum.StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in (JobState.DONE, JobState.FAILED, JobState.CANCELLED)

    @property
    def incomplete(self) -> bool:
        """Whether pages may be missing that did not fail: it has not ended, or was cancelled."""
        return self not in (JobState.DONE, JobState.FAILED)


class StepState(enum.StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


# A step's number is its page's (from 1), or one of these.
OPENING = 0
"""Counting the document's pages, which makes the steps of its pages."""
JOINING = -1
"""Joining tables and titles across the finished pages (``restructurePages``)."""


@dataclasses.dataclass(frozen=True)
class Job:
    """One row of ``jobs``. ``owner`` may see it: an API key's id, or "" without keys. ``flow`` names the client whose
    turns it takes. Times are seconds since the epoch; ``total_pages`` is None until the document is open. ``callback``
    has ``url``, and ``base``, the service's own address as the client reached it. ``trace``: of the request that
    submitted it (``traces``)."""

    id: str
    owner: str
    flow: str
    batch_id: str | None
    model: str
    file_name: str
    format: str
    options: dict[str, Any]
    page_ranges: str | None
    state: JobState
    error: str | None
    created: float
    started: float | None
    finished: float | None
    document_pages: int | None
    total_pages: int | None
    callback: dict[str, str] | None = None
    trace: dict[str, str] | None = None


@dataclasses.dataclass(frozen=True)
class Step:
    """One row of ``steps``. ``folder`` is where a finished page lies, relative to its job's folder."""

    number: int
    state: StepState
    attempts: int
    error: str | None
    kind: str | None
    width: int | None
    height: int | None
    folder: str | None
    sha256: str | None
    changed: int


@dataclasses.dataclass(frozen=True)
class Counts:
    """How many pages of a job are in which state."""

    queued: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0

    @property
    def ended(self) -> int:
        return self.done + self.failed


JOB_FIELDS = [field.name for field in dataclasses.fields(Job)]
STEP_FIELDS = [field.name for field in dataclasses.fields(Step)]


def to_job(row: Row) -> Job:
    values = {name: row[name] for name in JOB_FIELDS}
    told = {name: json.loads(row[name]) if row[name] else None for name in ("callback", "trace")}
    return Job(**values | {"state": JobState(row["state"]), "options": json.loads(row["options"])} | told)


def to_row(job: Job) -> dict:
    told = {"callback": job.callback, "trace": job.trace}
    return (
        dataclasses.asdict(job)
        | {"options": json.dumps(job.options), "state": str(job.state)}
        | {name: json.dumps(value) if value else None for name, value in told.items()}
    )


def to_step(row: Row) -> Step:
    return Step(**{name: row[name] for name in STEP_FIELDS} | {"state": StepState(row["state"])})


def count_pages(connection: Transaction, job_id: str) -> Counts:
    return with_counts(connection, [job_id])[job_id]


def with_counts(connection: Transaction, job_ids: Sequence[str]) -> dict[str, Counts]:
    """The counts of each of the jobs."""
    found: dict[str, dict[str, int]] = {job_id: {} for job_id in job_ids}
    marks = ", ".join("?" * len(job_ids))
    rows = connection.execute(
        "SELECT job_id, state, count(*) FROM steps "
        f"WHERE job_id IN ({marks or 'NULL'}) AND number > 0 GROUP BY job_id, state",
        tuple(job_ids),
    )
    for job_id, state, count in rows:
        found[job_id][state] = count
    return {job_id: Counts(**counts) for job_id, counts in found.items()}
