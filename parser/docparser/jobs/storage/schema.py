# SPDX-License-Identifier: Apache-2.0
"""The schema of the job database, and whether a file has it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from docparser.errors import Incompatible, StorageUnavailable
from docparser.job_tables import JOBS, statements

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


def fill(connection: sqlite3.Connection, change: int) -> None:
    """Make the tables in an empty database. Changes are numbered from ``change``."""
    for statement in statements(JOBS + CLOCK, sqlite=True):
        connection.execute(statement)
    connection.execute("UPDATE clock SET value = ?", (change,))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def check(connection: sqlite3.Connection, path: Path) -> None:
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
