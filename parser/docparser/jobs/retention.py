# SPDX-License-Identifier: Apache-2.0
"""How long ended jobs are kept: until they are too old, or too many bytes are kept, the oldest first."""

from __future__ import annotations

import time

from docparser.jobs.database import Database
from docparser.jobs.files import JobFiles


class Retention:
    def __init__(self, database: Database, files: JobFiles, *, age_s: float, most_bytes: int) -> None:
        self._database = database
        self._files = files
        self._age_s = age_s
        self._most_bytes = most_bytes

    def sweep(self) -> int:
        """Removes what is due; returns how many jobs. Jobs that have not ended are never removed, and never their
        documents before the row that names them."""
        removed = 0
        for job_id in self._due():
            with self._database.writing() as connection:
                gone = connection.execute(
                    "DELETE FROM jobs WHERE id = ? AND state NOT IN ('pending', 'running')", (job_id,)
                ).rowcount
            if gone:
                self._files.remove(job_id)
                removed += 1
        return removed

    def _due(self) -> list[str]:
        with self._database.reading() as connection:
            (kept,) = connection.execute("SELECT coalesce(sum(bytes), 0) FROM jobs").fetchone()
            ended = connection.execute(
                "SELECT id, finished, bytes FROM jobs WHERE state NOT IN ('pending', 'running') ORDER BY finished"
            ).fetchall()
        due, oldest = [], time.time() - self._age_s
        for row in ended:
            if row["finished"] < oldest or kept > self._most_bytes:
                due.append(row["id"])
                kept -= row["bytes"]
        return due
