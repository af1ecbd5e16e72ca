# SPDX-License-Identifier: Apache-2.0
"""Opens the database, and builds it from the jobs' folders where it is missing or damaged.

A damaged file is renamed, never deleted. Only its list of failed pages is lost; they are parsed again. A file of
another program, or of a newer release, is not touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from docparser.errors import StorageUnavailable
from docparser.jobs.storage import database as databases
from docparser.jobs.storage.data_folder import DATABASE, flush_folder
from docparser.jobs.storage.database import Damaged, SqliteDatabase
from docparser.jobs.storage.job_folders import JobFolders
from docparser.jobs.storage.reconcile import YOUNG_S, Mended, reconcile

log = logging.getLogger(__name__)


def open_database(files: JobFolders) -> SqliteDatabase:
    """The database, in agreement with the folders. Raises StorageUnavailable if it is damaged while another process
    uses it, so that it cannot be set aside, or if it is not ours."""
    with files.named_errors():
        try:
            database = _opened(files)
        except Damaged as exc:
            log.error("%s", exc)
            with exclusive(files.root):
                set_aside(files)
                database = _opened(files)
        alone = _is_alone(files.root)
    say(reconcile(database, files, young_s=0.0 if alone else YOUNG_S))
    return database


def _opened(files: JobFolders) -> SqliteDatabase:
    make_if_missing(files)
    return SqliteDatabase(files.database)


def make_if_missing(files: JobFolders) -> None:
    """Build the database from the folders if there is none. It appears as a whole, and only one process makes it."""
    path = files.database
    if path.exists():
        return
    with _take(files.root / "repair.lock", fcntl.LOCK_EX):
        if path.exists():  # another process was faster
            return
        files.check()
        new = path.with_name(f".{path.name}-new")
        _remove(new)  # of a process that ended here
        try:
            try:
                databases.create(new)
            except sqlite3.Error as exc:
                raise StorageUnavailable(f"PARSER_DATA_DIR: {path} cannot be made ({exc}).") from exc
            database = SqliteDatabase(new)
            mended = reconcile(database, files)
            database.close()  # the last connection moves everything into the one file
            set_aside(files)  # SQLite would take the removed file's leftovers for changes of the new one
            new.rename(path)
            flush_folder(files.root)
        finally:
            _remove(new)
    if mended:
        log.error("there was no job database; %d jobs were rebuilt from their folders", mended.jobs)


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def reopen(files: JobFolders, database: SqliteDatabase) -> None:
    """Open the file that is at the path now, in place of the one that was open before. Raises Damaged, Incompatible."""
    with _take(files.root / "repair.lock", fcntl.LOCK_EX):
        _rename(database.stale(), _aside(files.database))
        database.reopen()


def set_aside(files: JobFolders) -> None:
    """Rename the database, with what SQLite keeps beside it."""
    path = files.database
    _rename([path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")], _aside(path))


def _aside(path: Path) -> str:
    return f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def _rename(paths: list[Path], aside: str) -> None:
    for path in paths:
        name = aside + path.name.removeprefix(DATABASE)
        with contextlib.suppress(FileNotFoundError):
            path.rename(path.with_name(name))
            log.error("%s is set aside as %s", path.name, name)


def say(mended: Mended) -> None:
    if mended:
        log.warning(
            "rows and folders of jobs disagreed: %d rows of jobs were made, %d pages were taken over or wait again",
            mended.jobs,
            mended.pages,
        )


def mark_in_use(root: Path) -> TextIO:
    """Take the lock that marks the database as in use; it is held until the returned file is closed."""
    return _take(root / "in-use.lock", fcntl.LOCK_SH)


@contextlib.contextmanager
def exclusive(root: Path) -> Iterator[None]:
    """Raises StorageUnavailable while any process holds the database in use."""
    try:
        with _take(root / "in-use.lock", fcntl.LOCK_EX | fcntl.LOCK_NB):
            yield
    except BlockingIOError:
        raise StorageUnavailable(
            f"PARSER_DATA_DIR: the job database in {root} is damaged, and another process uses it; stop all parsers of "
            "this directory and start one: it sets the file aside and rebuilds it"
        ) from None


def _is_alone(root: Path) -> bool:
    try:
        with _take(root / "in-use.lock", fcntl.LOCK_EX | fcntl.LOCK_NB):
            return True
    except BlockingIOError:
        return False


def _take(path: Path, how: int) -> TextIO:
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w")
    try:
        fcntl.flock(file, how)
    except BaseException:
        file.close()
        raise
    return file
