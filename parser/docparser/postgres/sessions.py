# SPDX-License-Identifier: Apache-2.0
"""Which parsers are alive. Each has a session in which it holds a lock that is named after it; the server drops the
lock when the session ends, as it does when the process is killed or its machine is gone.

A session also ends when PostgreSQL does, or a network breaks. So a parser counts as dead only when others have missed
its session for some seconds while PostgreSQL was there all the time. Meanwhile it can come back. A parser that stands
still keeps its session, and its pages, however long that is.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Collection

import psycopg

from docparser.errors import ParserError
from docparser.postgres.database import PostgresDatabase
from docparser.postgres.transaction import Row

# Looks further apart than this do not belong together: this parser stood still, or had nothing to look for.
GAP_S = 12.0

# pg_locks shows a lock's 64 bits as two halves.
HELD = """
SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND granted
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class Sessions:
    """``name`` is the name of this process, unique among all that ever used the database. Any thread may call."""

    def __init__(self, database: PostgresDatabase, grace_s: float) -> None:
        """Begins the session. Raises StorageUnavailable."""
        self._database = database
        self._grace_s = grace_s
        self.name = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._session: psycopg.Connection[Row] | None = None
        self._lock = threading.Lock()
        self._absent: dict[str, float] = {}  # name -> when its session was looked for in vain first
        self._looked = float("-inf")
        self.renew()

    def renew(self) -> None:
        """Begin the session again if it has ended. Raises StorageUnavailable."""
        with self._lock:
            if self._session is not None:
                try:
                    self._session.execute("SELECT 1")
                    return
                except psycopg.Error:
                    self._session.close()
                    self._session = None
            session = self._database.connect()
            # The previous session holds the lock until the server notices its end, which serves as well.
            row = session.execute("SELECT pg_try_advisory_lock(%s)", (_key(self.name),)).fetchone()
            if row is not None and row[0]:
                self._session = session
            else:
                session.close()

    def close(self) -> None:
        with self._lock:
            if self._session is not None:
                self._session.close()
                self._session = None

    def dead(self, names: Collection[str]) -> list[str]:
        """Those of ``names`` that have ended. Raises StorageUnavailable."""
        try:
            with self._database.reading() as transaction:
                held = {row[0] for row in transaction.execute(HELD)}
        except ParserError:
            with self._lock:
                self._absent.clear()
            raise
        now = time.monotonic()
        with self._lock:
            if now - self._looked > GAP_S:
                self._absent.clear()
            self._looked = now
            # Names that nobody asks about now are cleared too, once their sessions are there.
            self._absent = {name: since for name, since in self._absent.items() if _key(name) not in held}
            for name in names:
                if name != self.name and _key(name) not in held:
                    self._absent.setdefault(name, now)
            return [name for name in names if now - self._absent.get(name, now + 1) >= self._grace_s]


def _key(name: str) -> int:
    """The number of the lock that ``name`` holds."""
    return int(name.rsplit("-", 1)[1], 16)
