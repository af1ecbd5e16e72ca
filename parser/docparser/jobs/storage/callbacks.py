# SPDX-License-Identifier: Apache-2.0
"""Callbacks in the database. A callback tells an address of the client that the job has ended, once for each state.

A process claims a callback and sends it; then the callback is over, or waits for its next attempt. If the process is
killed, another one sends it again, with the same id.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import time
from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

from docparser.jobs.storage.states import Counts, Job, count_pages, to_job
from docparser.jobs.storage.transaction import Database, Membership, Transaction


def enqueue(connection: Transaction, job_id: str, event: str, change: int) -> None:
    """Queue the callback of this end, if the client asked for one and was not told yet. ``change`` makes the id, which
    stays through all attempts."""
    row = connection.execute("SELECT callback FROM jobs WHERE id = ?", (job_id,)).fetchone()
    if row is None or row["callback"] is None:
        return
    host = urlsplit(json.loads(row["callback"])["url"]).hostname or ""
    now = time.time()
    connection.execute(
        "INSERT INTO callbacks (job_id, event, id, host, state, not_before, created) "
        "VALUES (?, ?, ?, ?, 'queued', ?, ?) ON CONFLICT DO NOTHING",
        (job_id, str(event), f"{job_id}-{change}", host, now, now),
    )


def forget(connection: Transaction, job_id: str) -> None:
    """Drop all callbacks of the job, because it has begun again."""
    connection.execute("DELETE FROM callbacks WHERE job_id = ?", (job_id,))


def restore(connection: Transaction, job_id: str, events: Iterable[str]) -> None:
    """Rows of a rebuilt job for the ends that its client knows, so that they are not told again."""
    connection.executemany(
        "INSERT INTO callbacks (job_id, event, id, host, state, not_before, created) "
        "VALUES (?, ?, ?, '', 'over', 0, 0) ON CONFLICT DO NOTHING",
        [(job_id, event, f"{job_id}-{event}") for event in events],
    )


class CallbackState(enum.StrEnum):
    QUEUED = "queued"
    SENDING = "sending"
    DELIVERED = "delivered"
    GONE = "gone"
    """The receiver answered 410: it wants no more."""
    EXPIRED = "expired"
    """It failed for as long as the operator lets callbacks be retried."""
    OVER = "over"
    """One of the three above; the lost database knew which."""


@dataclasses.dataclass(frozen=True)
class Delivery:
    """A callback that this process now sends, for the ``attempts``-th time. ``created`` is when it was due first, in
    seconds since the epoch."""

    id: str
    job: Job
    counts: Counts
    event: str
    host: str
    attempts: int
    created: float


@dataclasses.dataclass(frozen=True)
class Told:
    """The state of a job's newest callback. ``not_before`` is the time of its next attempt."""

    event: str
    state: CallbackState
    attempts: int
    not_before: float
    status: int | None
    error: str | None


class CallbackQueue:
    """Methods raise StorageUnavailable and DataDirFull. A row may be gone: its job was removed or begun again."""

    def __init__(self, database: Database, processes: Membership) -> None:
        self._database = database
        self._processes = processes

    def waiting(self) -> int:
        """How many are queued or being sent, by all processes."""
        with self._database.reading() as connection:
            (count,) = connection.execute(
                "SELECT (SELECT count(*) FROM callbacks WHERE state = 'queued') "
                "+ (SELECT count(*) FROM callbacks WHERE state = 'sending')"
            ).fetchone()
        return int(count)

    def claim(self, without: Collection[str] = ()) -> Delivery | None:
        """The next one that is due, None if there is none; no host of ``without``."""
        others = f"AND host NOT IN ({', '.join('?' * len(without))}) " if without else ""
        due = (
            f"SELECT * FROM callbacks c WHERE state = 'queued' AND not_before <= ? {others}ORDER BY not_before LIMIT 1"
        )
        with self._database.reading() as connection:  # most looks find nothing, and need no lock
            if connection.execute(due, (time.time(), *without)).fetchone() is None:
                return None
        with self._database.writing() as connection:
            row = connection.execute(due + connection.taking("c")[0], (time.time(), *without)).fetchone()
            if row is None:
                return None
            connection.execute(
                "UPDATE callbacks SET state = 'sending', process = ?, attempts = attempts + 1 "
                "WHERE job_id = ? AND event = ?",
                (self._processes.name, row["job_id"], row["event"]),
            )
            job = to_job(connection.execute("SELECT * FROM jobs WHERE id = ?", (row["job_id"],)).fetchone())
            counts = count_pages(connection, job.id)
        return Delivery(row["id"], job, counts, row["event"], row["host"], row["attempts"] + 1, row["created"])

    def over(self, delivery: Delivery, state: CallbackState, status: int | None, error: str) -> bool:
        """No further attempt. False if the row is gone."""
        return self._record(delivery, state, time.time(), status, error)

    def wait(self, delivery: Delivery, until: float, status: int | None, error: str) -> None:
        """The attempt failed; the next one is at ``until``, in seconds since the epoch."""
        self._record(delivery, CallbackState.QUEUED, until, status, error)

    def _record(
        self, delivery: Delivery, state: CallbackState, not_before: float, status: int | None, error: str
    ) -> bool:
        with self._database.writing() as connection:
            return bool(
                connection.execute(
                    "UPDATE callbacks SET state = ?, process = NULL, not_before = ?, status = ?, error = ? WHERE id = ?"
                    " AND job_id = ? AND event = ?",
                    (str(state), not_before, status, error or None, delivery.id, delivery.job.id, delivery.event),
                ).rowcount
            )

    def reclaim(self) -> int:
        """Put those of dead processes back into the queue; returns how many."""
        with self._database.reading() as connection:
            names = [
                row[0] for row in connection.execute("SELECT DISTINCT process FROM callbacks WHERE state = 'sending'")
            ]
        dead = self._processes.dead(names)
        if not dead:
            return 0
        with self._database.writing() as connection:
            return connection.execute(
                "UPDATE callbacks SET state = 'queued', process = NULL WHERE state = 'sending' "
                f"AND process IN ({', '.join('?' * len(dead))})",
                dead,
            ).rowcount

    def keep_only(self, deliveries: Collection[Delivery]) -> None:
        """Put this process's claims other than ``deliveries`` back into the queue: their answers were lost with the
        connection. Call it only while no claim is under way."""
        mine = {(delivery.job.id, delivery.event) for delivery in deliveries}
        with self._database.writing() as connection:
            rows = connection.execute(
                "SELECT job_id, event FROM callbacks WHERE state = 'sending' AND process = ?", (self._processes.name,)
            ).fetchall()
            connection.executemany(
                "UPDATE callbacks SET state = 'queued', process = NULL, attempts = attempts - 1 "
                "WHERE job_id = ? AND event = ? AND state = 'sending' AND process = ?",
                [(*row, self._processes.name) for row in rows if (row["job_id"], row["event"]) not in mine],
            )

    def told(self, job_id: str) -> Told | None:
        """The newest callback of a job; None before its end."""
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT * FROM callbacks WHERE job_id = ? ORDER BY created DESC LIMIT 1", (job_id,)
            ).fetchone()
        if row is None:
            return None
        fields = ("event", "attempts", "not_before", "status", "error")
        return Told(state=CallbackState(row["state"]), **{name: row[name] for name in fields})
