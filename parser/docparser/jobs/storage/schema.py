# SPDX-License-Identifier: Apache-2.0
"""The schema of the job database, and whether a file has it."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from docparser.errors import Incompatible, StorageUnavailable

# The version rises only when an older release could not use the file any more; then a release that knows the older
# version brings the file up to date when it opens it, and an older release refuses it (`Incompatible`).
VERSION = 1
APPLICATION_ID = 0x444A4F42  # "DJOB"; 0 in files of the releases before it
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
# What came later and older releases need not know, by the name of a table, index or column of jobs that it makes;
# `extend` adds it to their files.
EXTENSIONS = {
    "callbacks": """
ALTER TABLE jobs ADD COLUMN callback TEXT;
CREATE TABLE callbacks (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    event TEXT NOT NULL,
    id TEXT NOT NULL,
    host TEXT NOT NULL,
    state TEXT NOT NULL,
    process TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    not_before REAL NOT NULL,
    created REAL NOT NULL,
    status INTEGER,
    error TEXT,
    PRIMARY KEY (job_id, event)
) WITHOUT ROWID;
CREATE INDEX queued_callbacks ON callbacks (not_before) WHERE state = 'queued';
CREATE INDEX sending_callbacks ON callbacks (process) WHERE state = 'sending';
""",
    "jobs_by_owner": "CREATE INDEX jobs_by_owner ON jobs (owner, created, id)",
    "trace": "ALTER TABLE jobs ADD COLUMN trace TEXT",
}
TABLES = frozenset(("jobs", "steps", "flows", "clock"))


class Damaged(StorageUnavailable):
    """The file is no database, or its structure is broken: it can be set aside and built anew from the folders."""


def fill(connection: sqlite3.Connection, change: int) -> None:
    """Make the tables in an empty database. Changes are numbered from ``change``."""
    for part in (SCHEMA, *EXTENSIONS.values()):
        for statement in part.split(";\n"):
            connection.execute(statement)
    connection.execute("UPDATE clock SET value = ?", (change,))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def extend(connection: sqlite3.Connection) -> None:
    """Add what is new to a file of an older release, which can still use it afterwards."""
    if not _missing(connection):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for part in _missing(connection):  # less, where another process was faster
            for statement in part.split(";\n"):
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _missing(connection: sqlite3.Connection) -> list[str]:
    """Those of EXTENSIONS that the file has not."""
    names = {
        row["name"]
        for row in connection.execute("SELECT name FROM sqlite_schema UNION SELECT name FROM pragma_table_info('jobs')")
    }
    return [part for name, part in EXTENSIONS.items() if name not in names]


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Raises Incompatible if the file is not a job database of this version, Damaged if it is empty. Changes nothing:
    the file may be another program's."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not application and not version and not tables:
        raise Damaged(f"PARSER_DATA_DIR: the job database {path} is empty.")
    ours = application == APPLICATION_ID or (application == 0 and tables >= TABLES)
    if not ours or (version == VERSION and not tables >= TABLES):
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
