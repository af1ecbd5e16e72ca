# SPDX-License-Identifier: Apache-2.0
"""Jobs in the database: inserted, looked up, cancelled, retried, removed. The queue of their pages is in ``queue``.

All methods block on the disk; the service calls them in threads.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Sequence

from docparser.errors import InvalidJob, JobNotFound, KeyReused, QueueFull
from docparser.jobs.storage import callbacks, job_order
from docparser.jobs.storage.job_order import IS_ACTIVE
from docparser.jobs.storage.job_rows import cancel, drop_joining, find_step, insert_row, queue_again
from docparser.jobs.storage.states import (
    JOINING,
    OPENING,
    Counts,
    Job,
    JobState,
    Step,
    StepState,
    count_pages,
    to_job,
    to_row,
    to_step,
    with_counts,
)
from docparser.jobs.storage.transaction import Database, Row, Transaction

MOST_PAGES = (1 << 31) - 1  # what a row's number can be


@dataclasses.dataclass(frozen=True)
class QueueLimits:
    """How many pages may wait, of all jobs together, and how many jobs may wait or run."""

    pages: int
    jobs: int


@dataclasses.dataclass(frozen=True)
class Load:
    """How much waits and runs now; ``finished`` counts pages of the last ``window_s`` seconds."""

    pending_jobs: int
    running_jobs: int
    queued_pages: int
    running_pages: int
    finished: int
    window_s: float


class JobStore:
    def __init__(self, database: Database, limits: QueueLimits) -> None:
        self._database = database
        self._limits = limits

    def insert(self, job: Job, *, key: str | None, fingerprint: str, size: int) -> str:
        """Insert the job; when this returns, it is on the disk. If its row was made from the folder meanwhile, that row
        stays.

        Returns its id, or the id of the job that the same ``key`` made before. Raises QueueFull, KeyReused.
        """
        values = to_row(job) | {"idempotency_key": key, "fingerprint": fingerprint, "bytes": size}
        with self._database.writing() as connection:
            connection.lock_queue()
            if connection.execute("SELECT 1 FROM jobs WHERE id = ?", (job.id,)).fetchone():
                return job.id
            earlier = self._find_key(connection, job.owner, key, fingerprint)
            if earlier:
                return earlier
            self._check_room(connection)
            insert_row(connection, values)
            connection.execute(
                "INSERT INTO steps (job_id, number, state, changed) VALUES (?, ?, ?, ?)",
                (job.id, OPENING, StepState.QUEUED, connection.tick()),
            )
        return job.id

    def find_key(self, owner: str, key: str | None, fingerprint: str) -> str | None:
        """The job that this Idempotency-Key made before. Raises KeyReused."""
        with self._database.reading() as connection:
            return self._find_key(connection, owner, key, fingerprint)

    def check_room(self) -> None:
        """Raises QueueFull. Called before a document is read, and again when its job is inserted."""
        with self._database.reading() as connection:
            self._check_room(connection)

    def job(self, job_id: str, owner: str | None = None) -> Job:
        """Raises JobNotFound, also for a job of another ``owner``; with None every job is found."""
        with self._database.reading() as connection:
            return _job(connection, job_id, owner)

    def look(self, job_id: str, owner: str | None = None, after: int = -1) -> tuple[Job, Counts, list[Step], int]:
        """The job, its pages by state, the page steps that changed after ``after``, and the newest change; one
        snapshot. Raises JobNotFound."""
        with self._database.reading() as connection:
            job = _job(connection, job_id, owner)
            counts = count_pages(connection, job_id)
            rows = connection.execute(
                "SELECT * FROM steps WHERE job_id = ? AND changed > ? ORDER BY number", (job_id, after)
            ).fetchall()
        newest = max((row["changed"] for row in rows), default=after)
        return job, counts, [to_step(row) for row in rows if row["number"] > 0], newest

    def page(self, job_id: str, number: int, owner: str | None = None) -> tuple[Job, Step | None]:
        """The job and the step of one of its pages, in one snapshot; None where it has none of this number. Raises
        JobNotFound."""
        with self._database.reading() as connection:
            job = _job(connection, job_id, owner)
            return job, find_step(connection, job_id, number) if 0 < number <= MOST_PAGES else None

    def batch(self, batch_id: str, owner: str) -> list[tuple[Job, Counts]]:
        """All jobs of a batch, oldest first. Raises JobNotFound if there is none."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT * FROM jobs WHERE owner = ? AND batch_id = ? ORDER BY created, id", (owner, batch_id)
            ).fetchall()
            if not rows:
                raise JobNotFound(f"batchId: there is no job of the batch {batch_id!r} here, or its retention ended")
            return _counted(connection, rows)

    def newest(
        self,
        owner: str,
        most: int,
        *,
        before: tuple[float, str] | None = None,
        states: Collection[JobState] = (),
        batch_id: str | None = None,
        ids: Sequence[str] = (),
    ) -> list[tuple[Job, Counts]]:
        """At most ``most`` jobs of ``owner``, newest first: those that came ``before`` the job with this ``created``
        and ``id``, in one of ``states`` and with one of ``ids`` if there are any, and of this batch. Jobs that arrive
        meanwhile move none of them."""
        wanted: list[tuple[str, Sequence[str | float]]] = [("owner = ?", (owner,))]
        if before is not None:
            wanted.append(("(created, id) < (?, ?)", before))
        if states:
            wanted.append((f"state IN ({', '.join('?' * len(states))})", tuple(map(str, states))))
        if ids:
            wanted.append((f"id IN ({', '.join('?' * len(ids))})", tuple(ids)))
        if batch_id is not None:
            wanted.append(("batch_id = ?", (batch_id,)))
        conditions = " AND ".join(condition for condition, _ in wanted)
        values = [value for _, some in wanted for value in some]
        with self._database.reading() as connection:
            rows = connection.execute(
                f"SELECT * FROM jobs WHERE {conditions} ORDER BY created DESC, id DESC LIMIT ?", (*values, most)
            ).fetchall()
            return _counted(connection, rows)

    def cancel(self, job_id: str, owner: str) -> Job:
        """End a job that has not ended; its waiting pages leave the queue at once. An ended job stays as it is."""
        with self._database.writing() as connection:
            connection.lock_job(job_id)
            job = _job(connection, job_id, owner)
            if job.state.ended:
                return job
            cancel(connection, job_id)
            return _job(connection, job_id, owner)

    def retry(self, job_id: str, owner: str) -> list[int]:
        """Put the failed steps back into the queue, except those that took too long; returns their numbers. Joining
        comes after the pages.

        Raises QueueFull, and InvalidJob if the job still runs or was cancelled.
        """
        with self._database.writing() as connection:
            connection.lock_queue()
            connection.lock_job(job_id)
            job = _job(connection, job_id, owner)
            if not job.state.ended or job.state is JobState.CANCELLED:
                raise InvalidJob(f"the job is {job.state}; pages can be tried again when it is done or failed")
            self._check_room(connection)
            failed = connection.execute(
                "SELECT number FROM steps WHERE job_id = ? AND state = 'failed' "
                "AND coalesce(kind, '') NOT IN ('DocumentTooSlow', 'StepTooSlow') ORDER BY number",
                (job_id,),
            ).fetchall()
            again = [row["number"] for row in failed]
            if any(number != JOINING for number in again):
                drop_joining(connection, job_id)
                again = [number for number in again if number != JOINING]
            queue_again(connection, job_id, dict.fromkeys(again, 0))
            if again:
                connection.execute(
                    "UPDATE jobs SET state = 'running', error = NULL, started = ?, finished = NULL, turns = ? "
                    "WHERE id = ?",
                    (time.time(), job_order.initial(connection, job.flow), job_id),
                )
                callbacks.forget(connection, job_id)  # its next end is told again
            return again

    def load(self, window_s: float = 300.0) -> Load:
        with self._database.reading() as connection:
            jobs = dict(connection.execute(f"SELECT state, count(*) FROM jobs WHERE {IS_ACTIVE} GROUP BY state"))
            (queued,) = connection.execute("SELECT count(*) FROM steps WHERE state = 'queued'").fetchone()
            (running,) = connection.execute("SELECT count(*) FROM steps WHERE state = 'running'").fetchone()
            (finished,) = connection.execute(
                "SELECT count(*) FROM steps WHERE finished > ? AND number > 0", (time.time() - window_s,)
            ).fetchone()
        pending, active = jobs.get(JobState.PENDING, 0), jobs.get(JobState.RUNNING, 0)
        return Load(pending, active, queued, running, finished, window_s)

    def _check_room(self, connection: Transaction) -> None:
        (jobs,) = connection.execute(f"SELECT count(*) FROM jobs WHERE {IS_ACTIVE}").fetchone()
        if jobs >= self._limits.jobs:
            raise QueueFull(
                f"{jobs} jobs are waiting or running, the most that are allowed (PARSER_MAX_QUEUED_JOBS); "
                "try again later"
            )
        (pages,) = connection.execute("SELECT count(*) FROM steps WHERE state = 'queued'").fetchone()
        if pages >= self._limits.pages:
            raise QueueFull(
                f"{pages} pages are waiting, the most that are allowed (PARSER_MAX_QUEUED_PAGES); try again later"
            )

    @staticmethod
    def _find_key(connection: Transaction, owner: str, key: str | None, fingerprint: str) -> str | None:
        if key is None:
            return None
        row = connection.execute(
            "SELECT id, fingerprint FROM jobs WHERE owner = ? AND idempotency_key = ?", (owner, key)
        ).fetchone()
        if row is None:
            return None
        if row["fingerprint"] != fingerprint:
            raise KeyReused(
                f"Idempotency-Key: {key!r} was used for another submission before; send a new key, or the same "
                "document and options"
            )
        return row["id"]


def _counted(connection: Transaction, rows: Sequence[Row]) -> list[tuple[Job, Counts]]:
    counts = with_counts(connection, [row["id"] for row in rows])
    return [(to_job(row), counts[row["id"]]) for row in rows]


def _job(connection: Transaction, job_id: str, owner: str | None) -> Job:
    row = connection.execute("SELECT * FROM jobs WHERE id = ?", (job_id,)).fetchone()
    if row is None or (owner is not None and row["owner"] != owner):
        raise JobNotFound(f"jobId: there is no job {job_id!r} here; it may be another client's, or its retention ended")
    return to_job(row)
