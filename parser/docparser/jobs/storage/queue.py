# SPDX-License-Identifier: Apache-2.0
"""The queue of steps in the database: a step is claimed, and ends. ``job_order`` says whose step is next."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection

from pydantic import ValidationError

from docparser.contract.schemas import ParseOptions
from docparser.errors import JobNotFound
from docparser.jobs.storage import job_order
from docparser.jobs.storage.job_rows import end_if_finished, fail_step, find_step, queue_again
from docparser.jobs.storage.states import JOINING, Job, JobState, Step, StepState, to_job
from docparser.jobs.storage.transaction import Database, Membership, Transaction

# The limit ends a page that kills the whole service each time. The scheduler counts the worker processes that a page
# kills.
MAX_ATTEMPTS = 30
LOST = f"the service ended {MAX_ATTEMPTS} times while it had this page"


@dataclasses.dataclass(frozen=True)
class Claim:
    """A step that this process now works on. ``change``: the number of the change by which it was claimed; a step that
    is claimed once more, by this process too, has another."""

    job: Job
    number: int
    attempts: int
    change: int


@dataclasses.dataclass(frozen=True)
class PageRecord:
    """Where a finished page lies, its size in pixels, and the bytes of its files; 0 where nobody counts them."""

    folder: str
    sha256: str
    width: int
    height: int
    bytes: int = 0


class StepQueue:
    """Methods that end a step change nothing if the claim does not hold any more: its job was cancelled, or the step
    was put back and perhaps claimed again."""

    def __init__(self, database: Database, processes: Membership) -> None:
        self._database = database
        self._processes = processes

    def claim(self, eligible: job_order.Eligible = job_order.ANY) -> Claim | None:
        """The next step, or None if none is due."""
        now = time.time()
        with self._database.writing() as connection:
            while True:
                row = job_order.next_job(connection, now, eligible)
                if row is None:
                    return None
                step = connection.execute(
                    "SELECT number, attempts FROM steps WHERE job_id = ? AND state = 'queued' AND not_before <= ? "
                    "ORDER BY number LIMIT 1",
                    (row["id"], now),
                ).fetchone()
                if step is not None:  # another parser may have taken the job's last step before this one had the lock
                    break
            number, attempts = step
            change = connection.tick()
            connection.execute(
                "UPDATE steps SET state = 'running', process = ?, attempts = attempts + 1, changed = ? "
                "WHERE job_id = ? AND number = ?",
                (self._processes.name, change, row["id"], number),
            )
            job_order.take(connection, row["id"], row["flow"], now, is_page=number > 0)
        return Claim(to_job(row), number, attempts + 1, change)

    def opened(self, claim: Claim, document_pages: int, numbers: list[int], *, join: bool) -> None:
        """The document has ``document_pages`` pages, of which ``numbers`` are to be parsed."""
        with self._database.writing() as connection:
            if not self._delete_finished_step(connection, claim):
                return
            changed = connection.tick()
            connection.executemany(
                "INSERT INTO steps (job_id, number, state, changed) VALUES (?, ?, 'queued', ?) ON CONFLICT DO NOTHING",
                [(claim.job.id, number, changed) for number in numbers],  # a rebuilt job already has finished pages
            )
            connection.execute(
                "UPDATE jobs SET document_pages = ?, total_pages = ? WHERE id = ?",
                (document_pages, len(numbers), claim.job.id),
            )
            _advance_job(connection, claim.job.id, join)  # a rebuilt job may have nothing left to do

    def finish(self, claim: Claim, record: PageRecord, *, join: bool) -> bool:
        """The page is on the disk. If it is the last one and ``join`` is set, joining is the next step.

        Returns False if the step no longer belongs to this process; then nothing refers to the page's folder.
        """
        with self._database.writing() as connection:
            if not self._owns_or_deletes(connection, claim):
                return self._was_finished(connection, claim, record)
            connection.execute(
                "UPDATE steps SET state = 'done', process = NULL, error = NULL, kind = NULL, width = ?, height = ?, "
                "folder = ?, sha256 = ?, finished = ?, changed = ? WHERE job_id = ? AND number = ?",
                (
                    record.width,
                    record.height,
                    record.folder,
                    record.sha256,
                    time.time(),
                    connection.tick(),
                    claim.job.id,
                    claim.number,
                ),
            )
            connection.execute("UPDATE jobs SET bytes = bytes + ? WHERE id = ?", (record.bytes, claim.job.id))
            _advance_job(connection, claim.job.id, join)
        return True

    def joined(self, claim: Claim, records: dict[int, PageRecord], replaced: int) -> bool:
        """The joined pages replace the single ones, of ``replaced`` bytes together, all in one transaction.

        Returns False if the step no longer belongs to this process; then nothing refers to the joined pages.
        """
        with self._database.writing() as connection:
            if not self._delete_finished_step(connection, claim):
                return False
            changed = connection.tick()
            for number, record in records.items():
                connection.execute(
                    "UPDATE steps SET folder = ?, sha256 = ?, changed = ? WHERE job_id = ? AND number = ?",
                    (record.folder, record.sha256, changed, claim.job.id, number),
                )
            more = sum(record.bytes for record in records.values()) - replaced
            connection.execute("UPDATE jobs SET bytes = bytes + ? WHERE id = ?", (more, claim.job.id))
            end_if_finished(connection, claim.job.id)
        return True

    def fail(self, claim: Claim, kind: str, error: str, *, join: bool) -> None:
        """The step failed; the job's other pages are not touched. Joining that failed is not begun again by itself."""
        with self._database.writing() as connection:
            if self._owns_or_deletes(connection, claim):
                fail_step(connection, claim.job.id, claim.number, kind, error)
                _advance_job(connection, claim.job.id, join and claim.number != JOINING)

    def requeue(self, claim: Claim, delay_s: float, *, count: bool) -> None:
        """Put the step back into the queue, not before ``delay_s`` from now; ``count``: as one more attempt."""
        not_before = time.time() + delay_s if delay_s else 0.0  # a clock that is put back delays nothing that is due
        with self._database.writing() as connection:
            if self._owns_or_deletes(connection, claim):
                queue_again(connection, claim.job.id, {claim.number: claim.attempts - (not count)}, not_before)

    def damaged(self, job_id: str, step: Step, error: str) -> Step | None:
        """A finished page is unreadable where ``step`` says. It becomes a failed page, which can be retried, and None
        is returned.

        If it was joined, failed or queued meanwhile, nothing changes, and its step is returned as it is now. Raises
        JobNotFound if the job was removed.
        """
        with self._database.writing() as connection:
            connection.lock_job(job_id)
            now = find_step(connection, job_id, step.number)
            if now is None:
                raise JobNotFound(f"page {step.number} has no result; its job may have been removed")
            if now.state is not StepState.DONE or now.folder != step.folder:
                return now
            fail_step(connection, job_id, step.number, "StorageDamaged", error)
            connection.execute(
                "UPDATE jobs SET state = 'running' WHERE id = ? AND state IN ('done', 'failed')", (job_id,)
            )
            end_if_finished(connection, job_id)
        return None

    def read_again(self, claim: Claim, pages: dict[int, str]) -> bool:
        """Queue finished pages that cannot be joined to be read once more, in place of the joining step. They come by
        number with the reason. A page that was begun MAX_ATTEMPTS times fails.

        Returns False, and changes nothing, if the step no longer belongs to this process.
        """
        with self._database.writing() as connection:
            if not self._delete_finished_step(connection, claim):
                return False
            for number, words in pages.items():
                step = (claim.job.id, number)
                (attempts,) = connection.execute(
                    "SELECT attempts FROM steps WHERE job_id = ? AND number = ?", step
                ).fetchone()
                if attempts >= MAX_ATTEMPTS:
                    fail_step(connection, *step, "StorageDamaged", words)
                else:
                    queue_again(connection, claim.job.id, {number: attempts})
            _advance_job(connection, claim.job.id, join=True)
        return True

    def cancelled(self, claims: list[Claim]) -> list[Claim]:
        """This process's claims whose jobs were cancelled meanwhile."""
        with self._database.reading() as connection:
            return [claim for claim in claims if not self._owns(connection, claim)]

    def reclaim(self) -> int:
        """Put the steps of dead processes back into the queue; returns how many.

        A step fails when it was begun MAX_ATTEMPTS times. A step of a cancelled job is deleted.
        """
        with self._database.reading() as connection:
            names = [
                row[0]
                for row in connection.execute(
                    "SELECT DISTINCT process FROM steps WHERE state = 'running' AND process IS NOT NULL"
                )
            ]
        dead = self._processes.dead(names)
        if not dead:
            return 0
        with self._database.writing() as connection:
            marks = ", ".join("?" * len(dead))
            jobs = connection.execute(
                f"SELECT DISTINCT job_id FROM steps WHERE state = 'running' AND process IN ({marks}) ORDER BY job_id",
                dead,
            ).fetchall()
            for job in jobs:
                connection.lock_job(job["job_id"])
            rows = connection.execute(
                "SELECT s.job_id, s.number, s.attempts, j.state, j.options FROM steps s JOIN jobs j ON j.id = s.job_id "
                f"WHERE s.state = 'running' AND s.process IN ({marks})",
                dead,
            ).fetchall()
            for row in rows:
                step = (row["job_id"], row["number"])
                if row["state"] == JobState.CANCELLED:
                    connection.execute("DELETE FROM steps WHERE job_id = ? AND number = ?", step)
                elif row["attempts"] >= MAX_ATTEMPTS:
                    fail_step(connection, *step, "ServiceLost", LOST)
                    join = row["number"] != JOINING and _joins(row["options"])
                    _advance_job(connection, row["job_id"], join)
                else:
                    queue_again(connection, row["job_id"], {row["number"]: row["attempts"]})
        return len(rows)

    def keep_only(self, claims: Collection[Claim]) -> int:
        """Put this process's steps other than ``claims`` back into the queue; returns how many.

        Such steps exist if the answer to a claim was lost with the connection. Call it only while no claim is under
        way.
        """
        mine = {claim.change for claim in claims}
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT job_id, number, changed FROM steps WHERE state = 'running' AND process = ?",
                (self._processes.name,),
            ).fetchall()
        lost = [(row["job_id"], row["number"]) for row in rows if row["changed"] not in mine]
        for job_id, number in lost:
            with self._database.writing() as connection:
                connection.lock_job(job_id)
                connection.execute(
                    "UPDATE steps SET state = 'queued', process = NULL, attempts = attempts - 1, changed = ? "
                    "WHERE job_id = ? AND number = ? AND state = 'running' AND process = ?",
                    (connection.tick(), job_id, number, self._processes.name),
                )
        return len(lost)

    def _owns_or_deletes(self, connection: Transaction, claim: Claim) -> bool:
        """Whether the step belongs to this process; the job is locked. If it was cancelled meanwhile, delete the
        step."""
        connection.lock_job(claim.job.id)
        if self._owns(connection, claim):
            return True
        connection.execute(
            "DELETE FROM steps WHERE job_id = ? AND number = ? AND state = 'running' AND process = ? AND changed = ?",
            (claim.job.id, claim.number, self._processes.name, claim.change),
        )
        return False

    def _owns(self, connection: Transaction, claim: Claim) -> bool:
        row = connection.execute(
            "SELECT 1 FROM steps s JOIN jobs j ON j.id = s.job_id WHERE s.job_id = ? AND s.number = ? "
            "AND s.state = 'running' AND s.process = ? AND s.changed = ? AND j.state = 'running'",
            (claim.job.id, claim.number, self._processes.name, claim.change),
        ).fetchone()
        return row is not None

    @staticmethod
    def _was_finished(connection: Transaction, claim: Claim, record: PageRecord) -> bool:
        """Whether an earlier call finished this page, whose answer was lost with the connection."""
        row = connection.execute(
            "SELECT 1 FROM steps WHERE job_id = ? AND number = ? AND state = 'done' AND folder = ?",
            (claim.job.id, claim.number, record.folder),
        ).fetchone()
        return row is not None

    def _delete_finished_step(self, connection: Transaction, claim: Claim) -> bool:
        """Delete a finished step that is no page. False if it no longer belongs to this process."""
        if not self._owns_or_deletes(connection, claim):
            return False
        connection.execute("DELETE FROM steps WHERE job_id = ? AND number = ?", (claim.job.id, claim.number))
        return True


def _joins(options: str) -> bool:
    """Whether a job with these options, as its row has them, joins its pages."""
    try:
        return ParseOptions.model_validate_json(options).restructurePages
    except ValidationError:  # kept by an earlier release, which allowed more
        return False


def _advance_job(connection: Transaction, job_id: str, join: bool) -> None:
    """After a page: queue the joining if it was the last one and some were parsed, or end the job."""
    if join:
        left, done = connection.execute(
            "SELECT count(*) FILTER (WHERE state IN ('queued', 'running')), count(*) FILTER (WHERE state = 'done') "
            "FROM steps WHERE job_id = ?",
            (job_id,),
        ).fetchone()
        if not left and done:
            connection.execute(
                "INSERT INTO steps (job_id, number, state, changed) VALUES (?, ?, 'queued', ?) "
                "ON CONFLICT (job_id, number) DO UPDATE SET state = 'queued', process = NULL, attempts = 0, "
                "not_before = 0, error = NULL, kind = NULL, finished = NULL, changed = excluded.changed",
                (job_id, JOINING, connection.tick()),
            )
            return
    end_if_finished(connection, job_id)
