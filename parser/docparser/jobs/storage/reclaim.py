# SPDX-License-Identifier: Apache-2.0
"""Steps of processes that died: back into the queue, so that another process takes them."""

from __future__ import annotations

from docparser.jobs.storage.states import JobState
from docparser.jobs.storage.store import end_if_finished, fail_step, tick
from docparser.jobs.storage.transaction import Database, Presence

# The limit ends a page that kills the whole service each time. The scheduler counts the worker processes that a page
# kills.
MAX_ATTEMPTS = 30
LOST = f"the service ended {MAX_ATTEMPTS} times while it had this page"


def reclaim_steps(database: Database, processes: Presence) -> int:
    """Put the steps of dead processes back into the queue; returns how many.

    A step fails when it was begun MAX_ATTEMPTS times. A step of a cancelled job is deleted.
    """
    with database.reading() as connection:
        names = [
            row[0]
            for row in connection.execute(
                "SELECT DISTINCT process FROM steps WHERE state = 'running' AND process IS NOT NULL"
            )
        ]
    dead = processes.dead(names)
    if not dead:
        return 0
    with database.writing() as connection:
        marks = ", ".join("?" * len(dead))
        jobs = connection.execute(
            f"SELECT DISTINCT job_id FROM steps WHERE state = 'running' AND process IN ({marks}) ORDER BY job_id", dead
        ).fetchall()
        for job in jobs:
            connection.lock_job(job["job_id"])
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
                fail_step(connection, *step, "ServiceLost", LOST)
                end_if_finished(connection, row["job_id"])
            else:
                connection.execute(
                    "UPDATE steps SET state = 'queued', process = NULL, changed = ? WHERE job_id = ? AND number = ?",
                    (tick(connection), *step),
                )
    return len(rows)
