# SPDX-License-Identifier: Apache-2.0
"""Rows of callbacks: a job's end that an address of its client is told of, once for each state. ``callback_queue`` has
them sent. All functions are part of a transaction of their caller's."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from urllib.parse import urlsplit

from docparser.jobs.storage.transaction import Transaction


def enqueue(connection: Transaction, job_id: str, event: str, change: int) -> None:
    """The job has ended as ``event`` says; tell it if its client asked for that and was not told yet. ``change`` makes
    the id, which stays through all attempts."""
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
    """Drop what was told and what waits: the job has begun again."""
    connection.execute("DELETE FROM callbacks WHERE job_id = ?", (job_id,))


def restore(connection: Transaction, job_id: str, events: Iterable[str]) -> None:
    """Rows of a rebuilt job for the ends that were told: they are not told again."""
    connection.executemany(
        "INSERT INTO callbacks (job_id, event, id, host, state, not_before, created) "
        "VALUES (?, ?, ?, '', 'over', 0, 0) ON CONFLICT DO NOTHING",
        [(job_id, event, f"{job_id}-{event}") for event in events],
    )
