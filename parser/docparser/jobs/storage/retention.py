# SPDX-License-Identifier: Apache-2.0
"""Removes ended jobs that are too old or too large together, and unreferenced files."""

from __future__ import annotations

import time
from collections.abc import Callable

from docparser.errors import OutcomeUnknown
from docparser.jobs.storage.files import JobFiles
from docparser.jobs.storage.states import JobState
from docparser.jobs.storage.transaction import Database

ORPHAN_S = 3600.0  # a younger file may be in the making


def remove_job(database: Database, files: JobFiles, job_id: str) -> bool:
    """Remove an ended job with its folder; False, and nothing is changed, if there is none or it has not ended.

    While the row is locked, the folder gets the name of a removed one; it is deleted after the row. So a folder with a
    job's name always belongs to a kept job, even if the database is lost. ``reconcile`` finishes interrupted removals.
    """
    hidden = None
    try:
        with database.writing() as connection:
            gone = connection.execute(
                "DELETE FROM jobs WHERE id = ? AND state NOT IN ('pending', 'running')", (job_id,)
            ).rowcount
            if gone:
                hidden = files.hide(job_id)
    except OutcomeUnknown:
        raise  # a hidden folder is a removal that `reconcile` ends
    except BaseException:
        if hidden is not None:
            files.show(job_id, hidden)
        raise
    if hidden is not None:
        files.remove_hidden(hidden)
    return bool(gone)


class Retention:
    def __init__(
        self,
        database: Database,
        files: JobFiles,
        *,
        age_s: float,
        most_bytes: int,
        removed: Callable[[str], None] = lambda job_id: None,
    ) -> None:
        """``removed`` is told the id of each job that is gone."""
        self._database = database
        self._files = files
        self._age_s = age_s
        self._most_bytes = most_bytes
        self._tell = removed

    def sweep(self) -> int:
        """Remove the jobs that are due; returns how many. A job that has not ended is never removed."""
        removed = 0
        for job_id in self._due():
            if remove_job(self._database, self._files, job_id):
                self._tell(job_id)  # at once: the next removal may fail
                removed += 1
        return removed

    def remove_leftovers(self, stop: Callable[[], bool]) -> None:
        """Remove, if older than an hour: half-written and half-removed files, and page folders of ended jobs that no
        row names.

        A folder with a job's name stays, whatever the rows say; so does a page's only folder, unless the job was
        cancelled. A walk over all files can take minutes, so ``stop`` is asked after each job.
        """
        old = time.time() - ORPHAN_S
        with self._database.reading() as connection:
            jobs = {row[0]: JobState(row[1]) for row in connection.execute("SELECT id, state FROM jobs")}
            used = {
                (row[0], row[1])
                for row in connection.execute("SELECT job_id, folder FROM steps WHERE folder IS NOT NULL")
            }
        for job_id, pages in self._files.clean(old):
            if stop():
                return
            state = jobs.get(job_id)
            for folders in pages.values() if state is not None and state.ended else ():
                replaced = any((job_id, folder) in used for folder in folders)
                for folder in folders if replaced or state is JobState.CANCELLED else ():
                    if (job_id, folder) not in used and self._files.page_changed(job_id, folder) < old:
                        self._files.remove_page(job_id, folder)

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
