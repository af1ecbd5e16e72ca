# SPDX-License-Identifier: Apache-2.0
"""What happens before the first request: the database is checked, rebuilt if need be, and rubbish is removed.

A damaged database file is set aside, never deleted, and a new one is made from the jobs' folders: every submission and
every finished page is in them. What is lost is only which pages had failed (they are parsed again) and Idempotency-Keys.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from docparser.jobs.database import Database
from docparser.jobs.errors import StorageDamaged
from docparser.jobs.files import JobFiles
from docparser.jobs.states import JobState
from docparser.jobs.store import restore

log = logging.getLogger(__name__)

UNSEEN_S = 3600.0  # a folder without a row is a submission under way, or one that was never answered


def open_database(files: JobFiles) -> Database:
    """Raises StorageDamaged if the file is damaged and another process uses it, so that it cannot be set aside."""
    path = files.root / "jobs.sqlite3"
    try:
        return _checked(path)
    except StorageDamaged as exc:
        log.error("%s", exc)
    with _alone(files.root):
        try:
            return _checked(path)  # another process may have been here first
        except StorageDamaged as exc:
            if "has version" in str(exc):
                raise
        set_aside = f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + suffix).rename(path.with_name(set_aside + suffix))
        database = _checked(path)
        count = rebuild(database, files)
        log.error("the damaged database is set aside as %s; %d jobs were rebuilt from their folders", set_aside, count)
        return database


def hold(root: Path):
    """A lock that says "the database is in use"; held until the returned file is closed."""
    file = (root / "in-use.lock").open("a")
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


def rebuild(database: Database, files: JobFiles) -> int:
    """Fills an empty database from the folders; returns how many jobs."""
    count = 0
    for job_id in sorted(files.job_ids()):
        try:
            submission = files.submission(job_id)
            pages = {}
            for number, folders in files.page_folders(job_id).items():
                for folder in reversed(folders):  # the newest that can be read
                    with contextlib.suppress(StorageDamaged):
                        page = files.page(job_id, folder, None)
                        pages[number] = (folder, page["width"], page["height"])
                        break
            restore(database, job_id, submission, pages)
            count += 1
        except (StorageDamaged, KeyError, TypeError, ValueError) as exc:
            log.error("job %s cannot be rebuilt: %s", job_id, exc)
    return count


def remove_rubbish(database: Database, files: JobFiles) -> None:
    """What no row points to: half-written folders, removed jobs, pages of cancelled ones. Leaves what is younger than
    an hour: it may be in the making."""
    old = time.time() - UNSEEN_S
    with database.reading() as connection:
        jobs = {row[0]: row[1] for row in connection.execute("SELECT id, state FROM jobs")}
        used = {
            (row[0], row[1]) for row in connection.execute("SELECT job_id, folder FROM steps WHERE folder NOT NULL")
        }
    for path in files.hidden():
        if _changed(path) < old:
            shutil.rmtree(path, ignore_errors=True)
    for job_id in files.job_ids():
        if job_id not in jobs:
            if _changed(files.folder(job_id)) < old:
                files.remove(job_id)
        elif JobState(jobs[job_id]).ended:
            for folders in files.page_folders(job_id).values():
                for folder in folders:
                    if (job_id, folder) not in used and _changed(files.page_folder(job_id, folder)) < old:
                        files.remove_page(job_id, folder)


def _checked(path: Path) -> Database:
    database = Database(path)
    try:
        database.check()
    except BaseException:
        database.close()
        raise
    return database


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Raises StorageDamaged while any process holds the database in use."""
    with (root / "in-use.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorageDamaged(
                f"PARSER_DATA_DIR: the job database in {root} is damaged, and another process uses it; stop all "
                "parsers of this directory and start one: it sets the file aside and rebuilds it"
            ) from None
        yield


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")
