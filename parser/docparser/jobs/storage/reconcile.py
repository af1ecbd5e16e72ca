# SPDX-License-Identifier: Apache-2.0
"""Makes rows agree with the jobs' folders, which hold every submission and every finished page.

They disagree after a crash between two steps, and where the database is new, older than the folders, or another one.
The folders win, and nothing is removed: a folder without a row gets its row; a finished page that its row does not know
is taken over; a page whose row is done and whose folder is gone waits again. Only a row says that a job is over.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections import defaultdict
from typing import Any

from docparser.errors import StorageDamaged
from docparser.jobs.storage import callbacks
from docparser.jobs.storage.files import JobFiles
from docparser.jobs.storage.job_rows import CANCELLED, cancel, drop_joining, end, insert_row, queue_again
from docparser.jobs.storage.queue import PageRecord
from docparser.jobs.storage.states import JOB_FIELDS, OPENING, Job, JobState, StepState, to_row
from docparser.jobs.storage.transaction import Database, Row, Transaction

log = logging.getLogger(__name__)

YOUNG_S = 60.0  # a younger folder without a row may be a submission that another process is about to insert


@dataclasses.dataclass
class Mended:
    """How many rows of jobs were made, and pages taken over or put back into the queue."""

    jobs: int = 0
    pages: int = 0

    def __bool__(self) -> bool:
        return bool(self.jobs or self.pages)


def reconcile(database: Database, files: JobFiles, *, young_s: float = 0.0, pages: bool = True) -> Mended:
    """Make the rows agree with the folders. Folders younger than ``young_s`` without a row wait for the next call;
    without ``pages`` only jobs are compared. Raises StorageUnavailable, DataDirFull."""
    mended = Mended()
    _finish_removals(database, files)
    with database.reading() as connection:
        known = {row[0] for row in connection.execute("SELECT id FROM jobs")}
    old = time.time() - young_s
    for job_id in sorted(files.job_ids() - known):
        if files.changed(job_id) > old:
            continue
        if files.unsure(job_id):  # its client was told 503, and no row came
            files.remove(job_id)
        else:
            mended.jobs += _restore(database, files, job_id)
    if pages:
        for job_id, steps in _steps(database).items():
            mended.pages += _compare(database, files, job_id, steps)
    return mended


def _finish_removals(database: Database, files: JobFiles) -> None:
    """Delete the row of a job whose folder was removed before a crash."""
    for job_id in files.removed():
        if not files.exists(job_id):
            with database.writing() as connection:
                connection.execute("DELETE FROM jobs WHERE id = ? AND state NOT IN ('pending', 'running')", (job_id,))


def _restore(database: Database, files: JobFiles, job_id: str) -> bool:
    """Make a job's row from its folder. Unless it was cancelled, the job is opened again and its missing pages are
    parsed."""
    damage: tuple[type[Exception], ...] = (StorageDamaged, KeyError, TypeError, ValueError, *database.refusals)
    try:
        submission = files.submission(job_id)
        known: dict[str, Any] = {name: submission.get(name) for name in JOB_FIELDS}
        job = Job(**known | {"id": job_id, "state": JobState.PENDING})
        values = to_row(job) | {
            "fingerprint": submission["fingerprint"],
            "bytes": files.size(job_id),
            "idempotency_key": submission.get("idempotency_key"),
        }
        done = {number: page for number in files.page_folders(job_id) if (page := _newest(files, job_id, number))}
        with database.writing() as connection:
            connection.lock_queue()
            if not files.exists(job_id) or _exists(connection, job_id):
                return False  # it was removed, or another process was faster
            _insert(connection, values)
            callbacks.restore(connection, job_id, submission["told"])
            for number, page in done.items():
                _take(connection, job_id, number, page)
            if submission["cancelled"]:
                end(connection, job_id, JobState.CANCELLED, CANCELLED)
            else:
                _open_again(connection, job_id)
        return True
    except damage as exc:
        log.error("job %s cannot be rebuilt from its folder: %s", job_id, exc)
        return False


def _insert(connection: Transaction, values: dict[str, Any]) -> None:
    key = (values["owner"], values["idempotency_key"])
    if connection.execute("SELECT 1 FROM jobs WHERE owner = ? AND idempotency_key = ?", key).fetchone():
        values["idempotency_key"] = None
    insert_row(connection, values)


def _exists(connection: Transaction, job_id: str) -> bool:
    return connection.execute("SELECT 1 FROM jobs WHERE id = ?", (job_id,)).fetchone() is not None


def _steps(database: Database) -> dict[str, dict[int, Row]]:
    """Job -> the steps of its pages by number; none before the document is opened. Cancelled jobs are left out."""
    steps: dict[str, dict[int, Row]] = defaultdict(dict)
    with database.reading() as connection:
        for row in connection.execute("SELECT id FROM jobs WHERE state != 'cancelled'"):
            steps[row["id"]] = {}
        for row in connection.execute("SELECT job_id, number, state, folder, sha256 FROM steps WHERE number > 0"):
            if row["job_id"] in steps:
                steps[row["job_id"]][row["number"]] = row
    return steps


def _compare(database: Database, files: JobFiles, job_id: str, steps: dict[int, Row]) -> int:
    """Make the rows of one job's pages agree; returns how many changed."""
    if not files.has_document(job_id):
        return 0  # reading a page fails then, and can be tried again when the folder is back
    folders = files.page_folders(job_id)
    found: dict[int, PageRecord] = {}
    lost = []
    for number in folders.keys() | steps.keys():
        step, present = steps.get(number), folders.get(number, [])
        if step is None and steps:
            continue  # the job is about other pages
        if step is not None and (
            step["state"] == StepState.RUNNING
            or (
                step["state"] == StepState.DONE and (step["folder"] in present or _there(files, job_id, step["folder"]))
            )
        ):
            continue
        page = _newest(files, job_id, number, step)
        if page is not None:
            found[number] = page
        elif step is not None and step["state"] == StepState.DONE:
            lost.append(number)
    cancelled = files.cancelled(job_id)
    if not (found or lost or cancelled):
        return 0
    with database.writing() as connection:
        connection.lock_job(job_id)
        if not _exists(connection, job_id):
            return 0
        if cancelled:
            cancel(connection, job_id)
            return 0
        for number, page in found.items():
            _take(connection, job_id, number, page)
        queue_again(connection, job_id, dict.fromkeys(lost, 0))
        _open_again(connection, job_id)
    return len(found) + len(lost)


def _there(files: JobFiles, job_id: str, folder: str | None) -> bool:
    return folder is not None and files.has_page(job_id, folder)


def _newest(files: JobFiles, job_id: str, number: int, step: Row | None = None) -> PageRecord | None:
    """The newest readable folder of a page that agrees with ``step``."""
    for folder in reversed(files.page_folders(job_id).get(number, [])):
        with contextlib.suppress(StorageDamaged, KeyError, TypeError):
            known = None
            if step is not None and step["folder"] == folder:
                known = step["sha256"]
                files.read_page(job_id, folder, known)  # the step may have failed for want of a picture
            page, sha256 = files.checked_page(job_id, folder, known)
            return PageRecord(folder, sha256, page["width"], page["height"])
    return None


def _take(connection: Transaction, job_id: str, number: int, page: PageRecord) -> None:
    """A finished page becomes a done step, unless a living process works on it."""
    connection.execute(
        "INSERT INTO steps (job_id, number, state, folder, sha256, width, height, finished, changed) "
        "VALUES (?, ?, 'done', ?, ?, ?, ?, ?, ?) ON CONFLICT (job_id, number) DO UPDATE SET state = 'done', "
        "process = NULL, error = NULL, kind = NULL, folder = excluded.folder, sha256 = excluded.sha256, "
        "width = excluded.width, height = excluded.height, finished = excluded.finished, changed = excluded.changed "
        "WHERE steps.state != 'running'",
        (job_id, number, page.folder, page.sha256, page.width, page.height, time.time(), connection.tick()),
    )


def _open_again(connection: Transaction, job_id: str) -> None:
    """Opening a document makes the steps that are missing, and ends the job, or joins its pages, if none waits."""
    drop_joining(connection, job_id)
    connection.execute(
        "INSERT INTO steps (job_id, number, state, changed) VALUES (?, ?, 'queued', ?) ON CONFLICT DO NOTHING",
        (job_id, OPENING, connection.tick()),
    )
    connection.execute(
        "UPDATE jobs SET state = CASE WHEN started IS NULL THEN 'pending' ELSE 'running' END, error = NULL, "
        "finished = NULL WHERE id = ?",
        (job_id,),
    )
