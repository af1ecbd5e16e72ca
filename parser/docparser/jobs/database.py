# SPDX-License-Identifier: Apache-2.0
"""The SQLite database of jobs: schema, connections, and what its errors mean.

WAL mode lets any number of processes on one machine read while one writes. ``synchronous=FULL`` makes a commit last
through a power failure, not only through a killed process: a job id is sent only after its commit.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from docparser.jobs.errors import StorageDamaged, StorageFull

VERSION = 1
BUSY_S = 30.0  # a writer waits this long for another one
SCHEMA = """
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    flow TEXT NOT NULL,
    batch_id TEXT,
    model TEXT NOT NULL,
    file_name TEXT NOT NULL,
    format TEXT NOT NULL,
    options TEXT NOT NULL,
    page_ranges TEXT,
    idempotency_key TEXT,
    fingerprint TEXT NOT NULL,
    state TEXT NOT NULL,
    error TEXT,
    created REAL NOT NULL,
    started REAL,
    finished REAL,
    document_pages INTEGER,
    total_pages INTEGER,
    bytes INTEGER NOT NULL,
    turns REAL NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX jobs_by_key ON jobs (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_by_batch ON jobs (owner, batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX active_jobs ON jobs (flow) WHERE state IN ('pending', 'running');
CREATE INDEX ended_jobs ON jobs (finished) WHERE state NOT IN ('pending', 'running');
CREATE TABLE steps (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    state TEXT NOT NULL,
    process TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    not_before REAL NOT NULL DEFAULT 0,
    error TEXT,
    kind TEXT,
    width INTEGER,
    height INTEGER,
    folder TEXT,
    sha256 TEXT,
    finished REAL,
    changed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id, number)
) WITHOUT ROWID;
CREATE INDEX queued_steps ON steps (job_id, number) WHERE state = 'queued';
CREATE INDEX running_steps ON steps (process) WHERE state = 'running';
CREATE INDEX changed_steps ON steps (job_id, changed);
CREATE INDEX finished_steps ON steps (finished) WHERE finished IS NOT NULL;
CREATE TABLE flows (flow TEXT PRIMARY KEY, turns REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE clock (value INTEGER NOT NULL);
INSERT INTO clock VALUES (0);
"""


class Database:
    """Connections to one file, one per thread. Methods raise StorageFull and StorageDamaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._lock = threading.Lock()
        self._connections: list[sqlite3.Connection] = []
        with self.writing() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == 0:
                for statement in SCHEMA.split(";\n"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {VERSION}")
            elif version != VERSION:
                raise StorageDamaged(
                    f"PARSER_DATA_DIR: {path} has version {version}; this service knows {VERSION}. Use the release "
                    "that wrote it, or another directory."
                )

    def close(self) -> None:
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(sqlite3.Error):
                    connection.close()
            self._connections.clear()

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the write lock from its beginning; committed at the end, or undone."""
        with self._named_errors():
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One snapshot for all queries inside."""
        with self._named_errors():
            connection = self._connection()
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    def version(self) -> int:
        """A number that changes when another connection has committed; cheap enough to ask several times a second."""
        with self._named_errors():
            return self._connection().execute("PRAGMA data_version").fetchone()[0]

    def check(self) -> None:
        """Raises StorageDamaged if the file's structure is broken."""
        with self._named_errors():
            (outcome,) = self._connection().execute("PRAGMA quick_check(1)").fetchone()
        if outcome != "ok":
            raise StorageDamaged(f"{self.path}: {outcome}")

    def _connection(self) -> sqlite3.Connection:
        if getattr(self._local, "connection", None) is None:
            connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            connection.row_factory = sqlite3.Row
            with self._lock:
                self._connections.append(connection)
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                connection.execute(f"PRAGMA {pragma}")
            self._local.connection = connection
        return self._local.connection

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY):
                raise StorageFull(
                    f"The job database cannot be written ({exc}): free space in PARSER_DATA_DIR and try again. "
                    "Nothing of earlier results is lost."
                ) from exc
            raise StorageDamaged(f"The job database cannot be used ({exc}).") from exc
        except sqlite3.DatabaseError as exc:
            if isinstance(exc, sqlite3.IntegrityError):
                raise
            raise StorageDamaged(
                f"The job database is damaged ({exc}); restart the service: it sets the file aside and rebuilds it "
                "from the jobs' folders."
            ) from exc
