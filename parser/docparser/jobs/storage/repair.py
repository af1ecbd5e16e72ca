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
from collections.abc import Callable
from pathlib import Path
from typing import TextIO, TypeVar

from docparser.errors import StorageUnavailable
from docparser.jobs.storage import database as databases
from docparser.jobs.storage.data_folder import DATABASE, flush_folder
from docparser.jobs.storage.database import Damaged, SqliteDatabase
from docparser.jobs.storage.job_folders import JobFolders
from docparser.jobs.storage.reconcile import YOUNG_S, Mended, reconcile

log = logging.getLogger(__name__)
T = TypeVar("T")


def open_database(files: JobFolders) -> SqliteDatabase:
    """The database, in agreement with the folders. Raises as ``opened`` does."""
    with files.named_errors():
        database = opened(files, lambda: SqliteDatabase(files.database))
        alone = _is_alone(files.root)
    say(reconcile(database, files, young_s=0.0 if alone else YOUNG_S))
    return database


def opened(files: JobFolders, open_it: Callable[[], T], in_use: TextIO | None = None) -> T:
    """What ``open_it`` returns. The database is built first if it is missing, and set aside and built anew if it is
    damaged; ``in_use``, this process's lock, is closed before that.

    Raises Incompatible; StorageUnavailable while another process uses the damaged one, which cannot be set aside then.
    """
    try:
        _make_if_missing(files)
        return open_it()
    except Damaged as exc:
        log.error("%s", exc)
        if in_use is not None:
            in_use.close()  # processes that find the damage must not wait for each other
        try:
            alone = _take(files.root / "in-use.lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorageUnavailable(
                f"PARSER_DATA_DIR: the job database in {files.root} is damaged, and another process uses it; stop all "
                "parsers of this directory and start one: it sets the file aside and rebuilds it"
            ) from None
        with alone:
            _set_aside(files)
            _make_if_missing(files)
            return open_it()


def _make_if_missing(files: JobFolders) -> None:
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
            _set_aside(files)  # SQLite would take the removed file's leftovers for changes of the new one
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


def _set_aside(files: JobFolders) -> None:
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
