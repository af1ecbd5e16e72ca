# SPDX-License-Identifier: Apache-2.0
"""One connection to PostgreSQL that speaks as sqlite3's do: `?` and `:name` in statements, rows with names.

So the job store has each statement once, for both databases.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import psycopg

CHANGED = "docparser_changed"  # the channel of notifications
QUEUE_LOCK = 0x444A4F4251  # any number that is the same in all parsers
NAMED = re.compile(r"(?<!:):([a-z_0-9]+)")  # `::` is a cast

Values = Sequence[Any] | Mapping[str, Any]


class Row(tuple[Any, ...]):
    """Values by place and by name."""

    names: Mapping[str, int]

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self.names[key] if isinstance(key, str) else key)


def rows_with_names(cursor: psycopg.Cursor[Any]) -> Callable[[Sequence[Any]], Row]:
    """psycopg's row factory."""
    return _row_type(tuple(column.name for column in cursor.description or ()))


@functools.lru_cache(maxsize=256)
def _row_type(names: tuple[str, ...]) -> type[Row]:
    return type("Row", (Row,), {"names": {name: place for place, name in enumerate(names)}})


class PostgresTransaction:
    """What the job store does inside one transaction (``jobs.storage.transaction.Transaction``).

    Rows that one statement reads may change before the next, because other parsers write at the same time. So every
    change of a job takes ``lock_job`` first. Locks are taken in this order, and none waits for another in a circle: the
    queue, jobs by their id, flows.
    """

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Values = ()) -> psycopg.Cursor[Row]:
        return self._connection.execute(_translated(statement), _storable(values))

    def executemany(self, statement: str, values: Iterable[Values]) -> psycopg.Cursor[Row]:
        cursor = self._connection.cursor()
        cursor.executemany(_translated(statement), [_storable(row) for row in values])
        return cursor

    def taking(self, table: str) -> tuple[str, ...]:
        """Endings of the SELECT that takes a row of ``table``. The first takes a row that nobody holds, the second
        waits for one."""
        return f" FOR UPDATE OF {table} SKIP LOCKED", f" FOR UPDATE OF {table}"

    def lock_job(self, job_id: str) -> None:
        """No other parser changes the job or its steps until this transaction ends. Without it, two last pages that end
        at once would each see the other one as running, and the job would never end."""
        self._connection.execute("SELECT 1 FROM jobs WHERE id = %s FOR UPDATE", (job_id,))

    def lock_queue(self) -> None:
        """No other parser lets a job into the queue until this transaction ends: its limits are for all together."""
        self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (QUEUE_LOCK,))

    def lock_name(self, name: str) -> None:
        """Nobody else has the lock of this name until this transaction ends. No other lock is taken with it."""
        self._connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (name,))

    def tick(self) -> int:
        """The number of the next change; watchers of all parsers are woken when it is committed.

        Numbers of one job rise in the order of their commits, because its changes are made under its lock.
        """
        row = self._connection.execute("SELECT nextval('clock'), pg_notify(%s, '')", (CHANGED,)).fetchone()
        assert row is not None
        return int(row[0])


@functools.lru_cache(maxsize=512)
def _translated(statement: str) -> str:
    return NAMED.sub(r"%(\1)s", statement).replace("?", "%s")


def _storable(values: Values) -> Values:
    """PostgreSQL's text cannot hold a zero byte, which SQLite's can."""
    if isinstance(values, Mapping):
        return {name: _clean(value) for name, value in values.items()}
    return [_clean(value) for value in values]


def _clean(value: Any) -> Any:
    return str(value).replace("\0", "\ufffd") if isinstance(value, str) else value
