# SPDX-License-Identifier: Apache-2.0
"""Removes what nothing refers to: half-written and removed folders, and pages that another one has replaced."""

from __future__ import annotations

import logging
import time

from docparser.errors import StorageUnavailable
from docparser.jobs.storage.files import JobFiles
from docparser.jobs.storage.states import JobState
from docparser.jobs.storage.transaction import Database

log = logging.getLogger(__name__)

ORPHAN_S = 3600.0  # what is younger may be in the making


def remove_leftovers_at_start(database: Database, files: JobFiles) -> None:
    """What is left over costs space only: a start does not fail because a bucket or PostgreSQL went away meanwhile."""
    try:
        remove_leftovers(database, files)
    except StorageUnavailable as exc:
        log.warning("%s What is left over is removed at the next start.", exc)


def remove_leftovers(database: Database, files: JobFiles) -> None:
    """Of what is older than an hour: what was written or removed by halves; of jobs that have ended, folders of pages
    that no row names.

    A folder with a job's name stays, whatever the rows say; so does a page's only folder, unless the job was cancelled.
    """
    old = time.time() - ORPHAN_S
    with database.reading() as connection:
        jobs = {row[0]: JobState(row[1]) for row in connection.execute("SELECT id, state FROM jobs")}
        used = {
            (row[0], row[1]) for row in connection.execute("SELECT job_id, folder FROM steps WHERE folder IS NOT NULL")
        }
    files.remove_half_written(old)
    for job_id in files.job_ids() & {job_id for job_id, state in jobs.items() if state.ended}:
        for folders in files.page_folders(job_id).values():
            replaced = any((job_id, folder) in used for folder in folders)
            for folder in folders if replaced or jobs[job_id] is JobState.CANCELLED else ():
                if (job_id, folder) not in used and files.page_changed(job_id, folder) < old:
                    files.remove_page(job_id, folder)
