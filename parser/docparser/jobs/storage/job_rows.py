# SPDX-License-Identifier: Apache-2.0
"""Rows of jobs and steps, changed in a transaction that is open: what store, queue and ``reconcile`` share."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from docparser.jobs.storage import callbacks, job_order
from docparser.jobs.storage.job_order import IS_ACTIVE
from docparser.jobs.storage.states import JOINING, OPENING, JobState, Step, count_pages, to_step
from docparser.jobs.storage.transaction import Transaction

CANCELLED = "cancelled by the client"


def insert_row(connection: Transaction, values: dict[str, Any]) -> None:
    """Insert a row of ``jobs``, which takes turns from now on. The queue is locked."""
    values["turns"] = job_order.initial(connection, values["flow"])
    names, marks = ", ".join(values), ", ".join(f":{name}" for name in values)
    connection.execute(f"INSERT INTO jobs ({names}) VALUES ({marks})", values)


def cancel(connection: Transaction, job_id: str) -> None:
    """End a job that has not ended; its waiting pages leave the queue at once. The job is locked."""
    connection.execute("DELETE FROM steps WHERE job_id = ? AND (state = 'queued' OR number <= 0)", (job_id,))
    end(connection, job_id, JobState.CANCELLED, CANCELLED)


def drop_joining(connection: Transaction, job_id: str) -> None:
    """Drop a queued joining, because pages are parsed again. The last of them queues it once more."""
    connection.execute("DELETE FROM steps WHERE job_id = ? AND number = ?", (job_id, JOINING))


def end_if_finished(connection: Transaction, job_id: str) -> None:
    """End the job if none of its steps waits or runs."""
    (left,) = connection.execute(
        "SELECT count(*) FROM steps WHERE job_id = ? AND state IN ('queued', 'running')", (job_id,)
    ).fetchone()
    if left:
        return
    counts = count_pages(connection, job_id)
    first = connection.execute(
        "SELECT number, error FROM steps WHERE job_id = ? AND state = 'failed' ORDER BY number LIMIT 1", (job_id,)
    ).fetchone()
    error = None
    if first is not None:
        error = first["error"]
        if first["number"] == JOINING:
            error = f"the pages could not be joined: {error}"
        elif first["number"] != OPENING:
            error = f"{counts.failed} of {counts.ended} pages failed; page {first['number']}: {error}"
    end(connection, job_id, JobState.DONE if counts.done else JobState.FAILED, error)


def end(connection: Transaction, job_id: str, state: JobState, error: str | None) -> None:
    """End the job; this is the one place where its callback begins to wait."""
    ended = connection.execute(
        f"UPDATE jobs SET state = ?, error = ?, finished = ? WHERE id = ? AND {IS_ACTIVE}",
        (state, error, time.time(), job_id),
    ).rowcount
    if ended:
        callbacks.enqueue(connection, job_id, state, connection.tick())


def find_step(connection: Transaction, job_id: str, number: int) -> Step | None:
    row = connection.execute("SELECT * FROM steps WHERE job_id = ? AND number = ?", (job_id, number)).fetchone()
    return to_step(row) if row is not None else None


def fail_step(connection: Transaction, job_id: str, number: int, kind: str, error: str) -> None:
    connection.execute(
        "UPDATE steps SET state = 'failed', process = NULL, kind = ?, error = ?, finished = ?, changed = ? "
        "WHERE job_id = ? AND number = ?",
        (kind, error, time.time(), connection.tick(), job_id, number),
    )


def queue_again(connection: Transaction, job_id: str, attempts: Mapping[int, int], not_before: float = 0.0) -> None:
    """These steps, by number with the times that they count as begun, wait again; none is due before ``not_before``, in
    seconds since the epoch.

    Each keeps the name and the checksum of the folder that it had: by them ``reconcile`` tells a damaged page.
    """
    changed = connection.tick()
    connection.executemany(
        "UPDATE steps SET state = 'queued', process = NULL, attempts = ?, not_before = ?, error = NULL, kind = NULL, "
        "finished = NULL, changed = ? WHERE job_id = ? AND number = ?",
        [(times, not_before, changed, job_id, number) for number, times in attempts.items()],
    )
