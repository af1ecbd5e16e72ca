# SPDX-License-Identifier: Apache-2.0
"""The queue of steps in the database: which comes next, and how each ended.

Fair among clients, and among the jobs of a client: every page is a turn, and who had the fewest turns goes next
(stride scheduling, Waldspurger and Weihl 1995, all strides equal). A 300-page document so takes its turns between the
small ones, and none waits for all of another's.
"""

from __future__ import annotations

import dataclasses
import sqlite3
import time

from docparser.jobs.database import Database
from docparser.jobs.processes import Processes
from docparser.jobs.states import JOINING, Job, JobState
from docparser.jobs.store import settle, tick, to_job

# A step that a killed service had is begun again. Only a page that takes the whole service down with it, again and
# again, must end some day: worker processes that die are counted elsewhere.
MAX_ATTEMPTS = 30
LOST = f"the service ended {MAX_ATTEMPTS} times while it had this page"


@dataclasses.dataclass(frozen=True)
class Claim:
    """A step that this process now works on."""

    job: Job
    number: int
    attempts: int


@dataclasses.dataclass(frozen=True)
class PageRecord:
    """Where a finished page lies, and its size in pixels."""

    folder: str
    sha256: str
    width: int
    height: int
    bytes: int


class StepQueue:
    """The methods that end a step do nothing for one that is not this process's any more: its job was cancelled."""

    def __init__(self, database: Database, processes: Processes) -> None:
        self._database = database
        self._processes = processes

    def claim(self) -> Claim | None:
        """The next step, or None if none is due."""
        now = time.time()
        with self._database.writing() as connection:
            row = connection.execute(
                "SELECT j.* FROM jobs j JOIN flows f ON f.flow = j.flow "
                "WHERE j.state IN ('pending', 'running') AND EXISTS ("
                "  SELECT 1 FROM steps WHERE job_id = j.id AND state = 'queued' AND not_before <= ?) "
                "ORDER BY f.turns, f.flow, j.turns, j.created LIMIT 1",
                (now,),
            ).fetchone()
            if row is None:
                return None
            number, attempts = connection.execute(
                "SELECT number, attempts FROM steps WHERE job_id = ? AND state = 'queued' AND not_before <= ? "
                "ORDER BY number LIMIT 1",
                (row["id"], now),
            ).fetchone()
            turn = 1 if number > 0 else 0  # opening is short, and tells early what is wrong with a document
            connection.execute(
                "UPDATE steps SET state = 'running', process = ?, attempts = attempts + 1, changed = ? "
                "WHERE job_id = ? AND number = ?",
                (self._processes.name, tick(connection), row["id"], number),
            )
            connection.execute(
                "UPDATE jobs SET state = 'running', started = coalesce(started, ?), turns = turns + ? WHERE id = ?",
                (now, turn, row["id"]),
            )
            connection.execute("UPDATE flows SET turns = turns + ? WHERE flow = ?", (turn, row["flow"]))
        return Claim(to_job(row), number, attempts + 1)

    def opened(self, claim: Claim, document_pages: int, numbers: list[int], *, join: bool) -> None:
        """The document has ``document_pages`` pages, of which ``numbers`` are to be parsed."""
        with self._database.writing() as connection:
            if not self._take_off(connection, claim):
                return
            changed = tick(connection)
            connection.executemany(
                "INSERT OR IGNORE INTO steps (job_id, number, state, changed) VALUES (?, ?, 'queued', ?)",
                [(claim.job.id, number, changed) for number in numbers],  # a rebuilt job has finished ones already
            )
            connection.execute(
                "UPDATE jobs SET document_pages = ?, total_pages = ? WHERE id = ?",
                (document_pages, len(numbers), claim.job.id),
            )
            _go_on(connection, claim, join)  # a rebuilt job may have nothing left to do

    def finish(self, claim: Claim, record: PageRecord, *, join: bool) -> bool:
        """The page is on the disk. Where it is the last one and ``join`` is set, joining is the next step. False: it
        is not this process's any more, so what was written is nobody's."""
        with self._database.writing() as connection:
            if not self._still_mine(connection, claim):
                return False
            connection.execute(
                "UPDATE steps SET state = 'done', process = NULL, error = NULL, kind = NULL, width = ?, height = ?, "
                "folder = ?, sha256 = ?, finished = ?, changed = ? WHERE job_id = ? AND number = ?",
                (record.width, record.height, record.folder, record.sha256, time.time(), tick(connection),
                 claim.job.id, claim.number),
            )  # fmt: skip
            connection.execute("UPDATE jobs SET bytes = bytes + ? WHERE id = ?", (record.bytes, claim.job.id))
            _go_on(connection, claim, join)
        return True

    def joined(self, claim: Claim, records: dict[int, PageRecord]) -> None:
        """The joined pages replace those that they were made from, all at once."""
        with self._database.writing() as connection:
            if not self._take_off(connection, claim):
                return
            changed = tick(connection)
            for number, record in records.items():
                connection.execute(
                    "UPDATE steps SET folder = ?, sha256 = ?, changed = ? WHERE job_id = ? AND number = ?",
                    (record.folder, record.sha256, changed, claim.job.id, number),
                )
            size = sum(record.bytes for record in records.values())
            connection.execute("UPDATE jobs SET bytes = bytes + ? WHERE id = ?", (size, claim.job.id))
            settle(connection, claim.job.id)

    def fail(self, claim: Claim, kind: str, error: str, *, join: bool) -> None:
        """The step cannot be done; the other pages go on."""
        with self._database.writing() as connection:
            if self._still_mine(connection, claim):
                _fail(connection, claim.job.id, claim.number, kind, error)
                _go_on(connection, claim, join)

    def put_back(self, claim: Claim, delay_s: float, *, count: bool) -> None:
        """To be tried again after ``delay_s``; ``count``: as a further attempt."""
        with self._database.writing() as connection:
            if self._still_mine(connection, claim):
                connection.execute(
                    "UPDATE steps SET state = 'queued', process = NULL, attempts = attempts - ?, not_before = ?, "
                    "changed = ? WHERE job_id = ? AND number = ?",
                    (0 if count else 1, time.time() + delay_s, tick(connection), claim.job.id, claim.number),
                )

    def damaged(self, job_id: str, number: int, error: str) -> None:
        """A finished page cannot be read any more: it counts as failed, and can be tried again."""
        with self._database.writing() as connection:
            _fail(connection, job_id, number, "StorageDamaged", error)
            connection.execute(
                "UPDATE jobs SET state = 'running' WHERE id = ? AND state IN ('done', 'failed')", (job_id,)
            )
            settle(connection, job_id)

    def cancelled(self, claims: list[Claim]) -> list[Claim]:
        """Those of this process's claims whose job was cancelled meanwhile."""
        with self._database.reading() as connection:
            return [claim for claim in claims if not self._mine(connection, claim)]

    def reclaim(self) -> int:
        """Puts the steps of dead processes back into the queue; returns how many."""
        with self._database.reading() as connection:
            names = [row[0] for row in connection.execute(
                "SELECT DISTINCT process FROM steps WHERE state = 'running' AND process IS NOT NULL")]  # fmt: skip
        dead = [name for name in names if not self._processes.alive(name)]
        if not dead:
            return 0
        with self._database.writing() as connection:
            marks = ", ".join("?" * len(dead))
            rows = connection.execute(
                "SELECT s.job_id, s.number, s.attempts, j.state FROM steps s JOIN jobs j ON j.id = s.job_id "
                f"WHERE s.state = 'running' AND s.process IN ({marks})",
                dead,
            ).fetchall()
            for row in rows:
                step = (row["job_id"], row["number"])
                if row["state"] == JobState.CANCELLED:
                    connection.execute("DELETE FROM steps WHERE job_id = ? AND number = ?", step)
                elif row["attempts"] >= MAX_ATTEMPTS:
                    _fail(connection, *step, "ServiceLost", LOST)
                    settle(connection, row["job_id"])
                else:
                    connection.execute(
                        "UPDATE steps SET state = 'queued', process = NULL, changed = ? WHERE job_id = ? AND number = ?",
                        (tick(connection), *step),
                    )
        return len(rows)

    def _still_mine(self, connection: sqlite3.Connection, claim: Claim) -> bool:
        """Forgets the step if its job was cancelled meanwhile."""
        if self._mine(connection, claim):
            return True
        connection.execute(
            "DELETE FROM steps WHERE job_id = ? AND number = ? AND state = 'running' AND process = ?",
            (claim.job.id, claim.number, self._processes.name),
        )
        return False

    def _mine(self, connection: sqlite3.Connection, claim: Claim) -> bool:
        row = connection.execute(
            "SELECT 1 FROM steps s JOIN jobs j ON j.id = s.job_id WHERE s.job_id = ? AND s.number = ? "
            "AND s.state = 'running' AND s.process = ? AND j.state = 'running'",
            (claim.job.id, claim.number, self._processes.name),
        ).fetchone()
        return row is not None

    def _take_off(self, connection: sqlite3.Connection, claim: Claim) -> bool:
        """Removes a step that is no page, once it is done."""
        if not self._still_mine(connection, claim):
            return False
        connection.execute("DELETE FROM steps WHERE job_id = ? AND number = ?", (claim.job.id, claim.number))
        return True


def _fail(connection: sqlite3.Connection, job_id: str, number: int, kind: str, error: str) -> None:
    connection.execute(
        "UPDATE steps SET state = 'failed', process = NULL, kind = ?, error = ?, finished = ?, changed = ? "
        "WHERE job_id = ? AND number = ?",
        (kind, error, time.time(), tick(connection), job_id, number),
    )


def _go_on(connection: sqlite3.Connection, claim: Claim, join: bool) -> None:
    """After a page: joining, if it was the last one of several and some were parsed; or the job's end."""
    if join:
        left, done = connection.execute(
            "SELECT sum(state IN ('queued', 'running')), sum(state = 'done') FROM steps WHERE job_id = ?",
            (claim.job.id,),
        ).fetchone()
        if not left and done:
            connection.execute(
                "INSERT OR REPLACE INTO steps (job_id, number, state, changed) VALUES (?, ?, 'queued', ?)",
                (claim.job.id, JOINING, tick(connection)),
            )
            return
    settle(connection, claim.job.id)
