# SPDX-License-Identifier: Apache-2.0
"""The tables in PostgreSQL, in versions that follow each other.

A parser brings an older schema up to date when it starts. So that two releases can run side by side during an upgrade,
a migration only adds: the older release goes on with a newer schema. A migration that an older release could not live
with also raises OLDEST; older releases then refuse the database.
"""

from __future__ import annotations

import time

from docparser.errors import Incompatible
from docparser.job_tables import JOBS, QUOTAS, statements
from docparser.postgres.transaction import PostgresTransaction

MIGRATIONS = {1: f"{JOBS}{QUOTAS}CREATE SEQUENCE clock;"}  # by the version that each leads to, in order
OLDEST = 1  # version that a release must know to use the newest schema
TABLES = ("jobs", "steps", "flows", "callbacks", "used", "charged")
VERSION_TABLE = "docparser_schema"
LOCK = 0x444A4F4253  # any number that is the same in all parsers


def upgrade(transaction: PostgresTransaction, migrations: dict[int, str] = MIGRATIONS, oldest: int = OLDEST) -> int:
    """Bring the schema up to date; returns the version that it had. One parser does this while the others wait. Raises
    Incompatible."""
    transaction.execute("SELECT pg_advisory_xact_lock(?)", (LOCK,))
    newest = max(migrations)
    before = check(transaction, newest)
    if before >= newest:
        return before
    for version, migration in migrations.items():
        for statement in statements(migration, sqlite=False) if version > before else ():
            transaction.execute(statement)
    if before == 0:
        # Numbers of changes rise beyond those of a database that this one replaces: watchers compare them.
        transaction.execute("SELECT setval('clock', ?)", (time.time_ns() // 1_000_000,))
        transaction.execute(
            f"CREATE TABLE {VERSION_TABLE} (version INTEGER NOT NULL, oldest INTEGER NOT NULL, place TEXT)"
        )
        transaction.execute(f"INSERT INTO {VERSION_TABLE} VALUES (?, ?, NULL)", (newest, oldest))
    transaction.execute(f"UPDATE {VERSION_TABLE} SET version = ?, oldest = ?", (newest, oldest))
    return before


def check(transaction: PostgresTransaction, known: int = max(MIGRATIONS)) -> int:
    """The version of the schema, 0 where there is none. Raises Incompatible if this release, which knows version
    ``known``, may not use it."""
    if not _exists(transaction, VERSION_TABLE):
        if foreign := [name for name in TABLES if _exists(transaction, name)]:
            raise Incompatible(
                f"PARSER_DATABASE_URL: the database has tables of another program ({', '.join(foreign)}). Name a "
                "database of the parser's own."
            )
        return 0
    version, oldest = transaction.execute(f"SELECT version, oldest FROM {VERSION_TABLE}").fetchone() or (0, 0)
    if oldest > known:
        raise Incompatible(
            f"PARSER_DATABASE_URL: the database has version {version}, for releases that know version {oldest} at "
            f"least; this release knows {known}. Use the release that wrote it."
        )
    return int(version)


def bind(transaction: PostgresTransaction, place: str, words: str) -> None:
    """Tie the database to the directory or bucket with the id ``place``, unless it is tied already; ``words`` name it.

    Raises Incompatible for another one, in which the documents of its jobs would be missing.
    """
    transaction.execute(f"UPDATE {VERSION_TABLE} SET place = ? WHERE place IS NULL", (place,))
    (found,) = transaction.execute(f"SELECT place FROM {VERSION_TABLE}").fetchone() or ("",)
    if found != place:
        raise Incompatible(
            f"PARSER_DATABASE_URL: the database belongs to the place with the id {found}; {words} has the id {place}. "
            "All parsers of one database share one PARSER_DATA_DIR or PARSER_STORAGE_URL: mount or name that one, or "
            "name another database."
        )


def _exists(transaction: PostgresTransaction, table: str) -> bool:
    row = transaction.execute("SELECT to_regclass(?)::text", (table,)).fetchone()
    return row is not None and row[0] is not None
