# SPDX-License-Identifier: Apache-2.0
"""The schema of the job database, and whether a file has it."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from docparser.errors import Incompatible, StorageUnavailable
from docparser.job_tables import CALLBACKS, FIRST, LISTS, TRACES

# The version rises only when an older release could not use the file any more; then a release that knows the older
# version brings the file up to date when it opens it, and an older release refuses it (`Incompatible`).
VERSION = 1
APPLICATION_ID = 0x444A4F42  # "DJOB"; 0 in files of the releases before it
CLOCK = """
CREATE TABLE clock (value INTEGER NOT NULL);
INSERT INTO clock VALUES (0)
"""
# What came later and older releases need not know, by the name of a table, index or column of jobs that it makes;
# `extend` adds it to their files.
EXTENSIONS = {"callbacks": CALLBACKS, "jobs_by_owner": LISTS, "trace": TRACES}
TABLES = frozenset(("jobs", "steps", "flows", "clock"))


class Damaged(StorageUnavailable):
    """The file is no database, or its structure is broken: it can be set aside and built anew from the folders."""


def fill(connection: sqlite3.Connection, change: int) -> None:
    """Make the tables in an empty database. Changes are numbered from ``change``."""
    for part in (FIRST, CLOCK, *EXTENSIONS.values()):
        _make(connection, part)
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
            _make(connection, part)
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _make(connection: sqlite3.Connection, part: str) -> None:
    """Run what makes tables: SQLite keeps them by their keys, without numbers of rows of its own."""
    for statement in part.replace("\n);", "\n) WITHOUT ROWID;").split(";\n"):
        connection.execute(statement)


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
