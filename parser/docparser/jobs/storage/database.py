# SPDX-License-Identifier: Apache-2.0
"""The SQLite database of jobs: its schema, connections, and what its errors mean.

WAL mode lets any number of processes on one machine read while one writes. ``synchronous=FULL`` makes a commit last
through a power failure, not only through a killed process: a job id is sent only after its commit.

Somebody may remove the file, or put another one in its place, while it is open here; SQLite does not notice. So every
transaction compares the file at the path with the opened one. The keeper then opens the new file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from docparser.errors import DataDirFull, Incompatible, ParserError, StorageUnavailable
from docparser.job_tables import JOBS, statements

BUSY_S = 30.0  # a writer waits this long for another one
LEAST_ROOM = 1 << 20  # bytes; with less, an input or output error of SQLite means a full disk
# Rises only with a change that older releases could not live with: a release refuses a file of another version.
VERSION = 1
APPLICATION_ID = 0x444A4F42  # "DJOB"
CLOCK = """
CREATE TABLE clock (value INTEGER NOT NULL);
INSERT INTO clock VALUES (0);
"""
TABLES = frozenset(("jobs", "steps", "flows", "callbacks", "clock"))


class Damaged(StorageUnavailable):
    """The file is no database, or its structure is broken: it can be set aside and built anew from the folders."""


def create(path: Path) -> None:
    """Write a new, empty database, readable by its owner alone."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with contextlib.closing(_connect(path)) as connection:
        _prepare(connection)
        connection.execute("BEGIN IMMEDIATE")
        # Numbers of changes rise beyond those of a database that this one replaces: watchers compare them.
        _fill(connection, time.time_ns() // 1_000_000)
        connection.execute("COMMIT")


def _fill(connection: sqlite3.Connection, change: int) -> None:
    """Make the tables in an empty database. Changes are numbered from ``change``."""
    for statement in statements(JOBS + CLOCK, sqlite=True):
        connection.execute(statement)
    connection.execute("UPDATE clock SET value = ?", (change,))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raises Incompatible if the file is not a job database of this version, Damaged if it is empty. Changes nothing:
    the file may be another program's."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not application and not version and not tables:
        raise Damaged(f"PARSER_DATA_DIR: the job database {path} is empty.")
    if application != APPLICATION_ID or (version == VERSION and not tables >= TABLES):
        raise Incompatible(
            f"PARSER_DATA_DIR: {path} is a database of another program (application_id {application}, tables "
            f"{', '.join(sorted(tables)[:5]) or 'none'}). Move it away, and the parser rebuilds the jobs' rows from "
            "their folders; or name another directory."
        )
    if version != VERSION:
        raise Incompatible(
            f"PARSER_DATA_DIR: {path} has version {version}; this release knows {VERSION}. Use the release that wrote "
            "it. Or move the file away, and the parser rebuilds its rows from the jobs' folders; failed pages are "
            "then parsed again."
        )


class SqliteTransaction(sqlite3.Connection):
    """A writing transaction holds the lock of the whole file from its beginning, so it locks no rows."""

    def taking(self, table: str) -> tuple[str, ...]:
        return ("",)

    def lock_job(self, job_id: str) -> None:
        pass

    def lock_queue(self) -> None:
        pass

    def tick(self) -> int:
        (value,) = self.execute("UPDATE clock SET value = value + 1 RETURNING value").fetchone()
        return int(value)


class SqliteDatabase:
    """Connections to one file, one per thread. Methods raise DataDirFull and StorageUnavailable."""

    refusals: tuple[type[Exception], ...] = (sqlite3.IntegrityError,)

    def __init__(self, path: Path) -> None:
        """Open the file at ``path``, which must exist. Raises Damaged, Incompatible, StorageUnavailable."""
        self.path = path
        self.failure = ""  # in words, of a transaction since the last `check`
        self._identity: tuple[int, int] | None = None
        self._beside: dict[Path, tuple[int, int] | None] = {}  # SQLite's own files beside it
        self._local = threading.local()
        self._lock = threading.Lock()
        self._connections: list[SqliteTransaction] = []
        self.reopen()

    def reopen(self) -> None:
        """Use the file that is at the path now. Each thread leaves its old connection when it comes here next."""
        self._identity = self._at_path()
        self._generation = object()
        try:
            self.check()
        except BaseException:
            self._identity = None  # nothing is read or written until the next time
            raise

    def stale(self) -> list[Path]:
        """SQLite's own files beside the opened database, if another file is at its path. They must go: SQLite would
        take the other file for a crashed database, and write these changes into it."""
        if self._identity is not None and _identity(self.path) == self._identity:
            return []
        return [path for path, identity in self._beside.items() if _identity(path) == identity]

    def close(self) -> None:
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(sqlite3.Error):
                    connection.close()
            self._connections.clear()

    @contextlib.contextmanager
    def writing(self) -> Iterator[SqliteTransaction]:
        """A transaction that holds the write lock from its beginning; committed at the end, or undone."""
        with self._named_errors():
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                self.check_path()
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[SqliteTransaction]:
        with self._named_errors():
            connection = self._connection()
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    def version(self) -> tuple[object, int]:
        """A value that changes when another connection has committed; cheap enough to ask several times a second."""
        with self._named_errors():
            return self._generation, self._connection().execute("PRAGMA data_version").fetchone()[0]

    def check_path(self) -> None:
        """Raises StorageUnavailable unless the file at the path is the one that is open here."""
        if self._at_path() != self._identity:
            raise StorageUnavailable(f"PARSER_DATA_DIR: {self.path} was replaced by another file.")

    def check(self) -> None:
        """Raises Incompatible if the file is not ours, Damaged if its structure is broken."""
        self.check_owner()
        with self._named_errors():
            (outcome,) = self._connection().execute("PRAGMA quick_check(1)").fetchone()
        if outcome != "ok":
            raise Damaged(f"PARSER_DATA_DIR: the job database {self.path} is damaged ({outcome}).")
        self.failure = ""

    def check_owner(self) -> None:
        """Raises Incompatible, Damaged as ``_check_schema`` does. Cheap."""
        with self._named_errors():
            _check_schema(self._connection(), self.path)

    def _at_path(self) -> tuple[int, int]:
        found = _identity(self.path)
        if found is None:
            raise StorageUnavailable(f"PARSER_DATA_DIR: {self.path} is missing.")
        return found

    def _connection(self) -> SqliteTransaction:
        self.check_path()
        if getattr(self._local, "generation", None) is not self._generation:
            if (old := getattr(self._local, "connection", None)) is not None:
                with self._lock, contextlib.suppress(sqlite3.Error, ValueError):
                    self._connections.remove(old)
                    old.close()
            connection = _connect(self.path)
            try:
                _check_schema(connection, self.path)
                _prepare(connection)
            except BaseException:
                connection.close()
                raise
            beside = (self.path.with_name(self.path.name + suffix) for suffix in ("-wal", "-shm"))
            self._beside = {path: _identity(path) for path in beside}
            self._local.connection = connection
            self._local.generation = self._generation
            with self._lock:
                self._connections.append(connection)
        return self._local.connection

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError:
            raise
        except sqlite3.DatabaseError as exc:
            named = self._name(exc)
            if not isinstance(named, DataDirFull):
                self.failure = str(named)
            raise named from exc

    def _name(self, exc: sqlite3.DatabaseError) -> ParserError:
        code = getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and self._no_room()):
            return DataDirFull(
                f"The job database cannot be written ({exc}): free space in PARSER_DATA_DIR and try again. "
                "Nothing of earlier results is lost."
            )
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return Damaged(f"PARSER_DATA_DIR: the job database {self.path} is damaged ({exc}).")
        return StorageUnavailable(f"PARSER_DATA_DIR: the job database {self.path} cannot be used ({exc}).")

    def _no_room(self) -> bool:
        try:
            return shutil.disk_usage(self.path.parent).free < LEAST_ROOM
        except OSError:
            return False


def _connect(path: Path) -> SqliteTransaction:
    """A connection to an existing file. A missing file is not made, because that would hide the loss."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
        factory=SqliteTransaction,
    )
    connection.row_factory = sqlite3.Row
    return connection


def _identity(path: Path) -> tuple[int, int] | None:
    """Tells one file from another; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _prepare(connection: sqlite3.Connection) -> None:
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
