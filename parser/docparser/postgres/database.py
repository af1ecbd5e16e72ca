# SPDX-License-Identifier: Apache-2.0
"""The PostgreSQL database of jobs: connections, what their errors mean, and which parsers are alive.

A connection is taken for one transaction and given back. There are as many as threads use at once, MOST at most. One
that breaks is dropped, and the next transaction makes a new one; nobody waits for a database that is away.

Each parser has a session in which it holds a lock that is named after it; the server drops the lock when the session
ends, as it does when the process is killed or its machine is gone. A session also ends when PostgreSQL does, or a
network breaks. So a parser counts as dead only when others have missed its session for some seconds while PostgreSQL
was there all the time. Meanwhile it can come back. A parser that stands still keeps its session, and its pages, however
long that is.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Collection, Iterator

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from docparser.errors import DataDirFull, NotReady, OutcomeUnknown, ParserError, StorageAway, StorageUnavailable
from docparser.postgres import schema
from docparser.postgres.transaction import CHANGED, PostgresTransaction, Row, rows_with_names

MOST = 8
CONNECT_S = 5
AGAIN_S = 0.5  # after a connection was refused, none is tried for so long
# A dead network is noticed within 15 s. A transaction of a parser that stands still ends after a minute, and frees its
# locks.
OPTIONS: dict[str, str | int | None] = {
    "application_name": "docparser",
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
SESSION = {
    "statement_timeout": "60s",
    "lock_timeout": "20s",
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "5s",
    "tcp_keepalives_interval": "3s",
    "tcp_keepalives_count": "3",
    "synchronous_commit": "on",
}
# Looks further apart than this do not belong together: this parser stood still, or had nothing to look for.
GAP_S = 12.0
# pg_locks shows a lock's 64 bits as two halves.
HELD = """
SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND granted
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class PostgresDatabase:
    """Methods raise StorageUnavailable, and DataDirFull where the database's disk is full."""

    refusals: tuple[type[Exception], ...] = (psycopg.IntegrityError, psycopg.DataError)
    """The exceptions of a statement whose values no row may have."""

    def __init__(self, url: str) -> None:
        """Connects when it is used. Raises NotReady if ``url`` cannot be read."""
        try:
            named = conninfo_to_dict(url)
        except psycopg.ProgrammingError:  # its words repeat the URL, and with it the password
            raise NotReady(
                "PARSER_DATABASE_URL: expected postgresql://user:password@host:port/database, with reserved characters "
                "of the password as %XX"
            ) from None
        self._where = make_conninfo("", **{**OPTIONS, **named})
        self.name = f"{named.get('dbname') or 'its default'} at {named.get('host') or 'the local socket'}"
        self._free: list[psycopg.Connection[Row]] = []
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(MOST)
        self._away: tuple[float, StorageUnavailable] | None = None  # until when, and why
        self._listening: psycopg.Connection[Row] | None = None
        self._heard = 0

    def close(self) -> None:
        with self._lock:
            connections, self._free = [*self._free, self._listening], []
            self._listening = None
        for connection in connections:
            if connection is not None:
                connection.close()

    @contextlib.contextmanager
    def writing(self) -> Iterator[PostgresTransaction]:
        """A transaction: committed at the end, or undone. Each statement reads what was committed before it. Raises
        OutcomeUnknown where the answer to the commit was lost."""
        with self._connection("BEGIN") as connection:
            yield PostgresTransaction(connection)
            try:
                connection.execute("COMMIT")
            except psycopg.OperationalError as exc:
                raise OutcomeUnknown(self._words(exc)) from exc

    @contextlib.contextmanager
    def reading(self) -> Iterator[PostgresTransaction]:
        with self._connection("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as connection:
            yield PostgresTransaction(connection)
            connection.execute("COMMIT")

    def version(self) -> object:
        """A value that changes when any parser has committed a change. Call it from one thread."""
        with self._named_errors():
            if self._listening is None or self._listening.closed:
                self._listening = self.connect()
                self._listening.execute(f"LISTEN {CHANGED}")
                self._heard += 1  # what happened before is not heard
            try:
                self._heard += sum(1 for _ in self._listening.notifies(timeout=0.01))
            except psycopg.Error:
                self._listening.close()
                raise
        return self._heard

    def check(self) -> None:
        """Raises StorageUnavailable, Incompatible. Cheap."""
        with self.reading() as transaction:
            if not schema.check(transaction):
                raise StorageUnavailable(
                    f"PARSER_DATABASE_URL: the database {self.name} has lost its tables. Restore it, or restart the "
                    "parsers to rebuild the jobs' rows from their folders."
                )

    def connect(self) -> psycopg.Connection[Row]:
        """A connection beside those for transactions. Raises StorageUnavailable at once while none can be had."""
        away = self._away
        if away is not None and time.monotonic() < away[0]:
            raise away[1]
        try:
            connection = psycopg.Connection[Row].connect(
                self._where,
                autocommit=True,
                row_factory=rows_with_names,
                prepare_threshold=None,  # a prepared statement fails for ever once another release has added a column
            )
            for name, value in SESSION.items():
                connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        except psycopg.Error as exc:
            error = StorageAway(self._words(exc))
            self._away = time.monotonic() + AGAIN_S, error
            raise error from exc
        self._away = None
        return connection

    @contextlib.contextmanager
    def _connection(self, begin: str) -> Iterator[psycopg.Connection[Row]]:
        """A connection with an open transaction, which is undone unless the body ends it."""
        with self._places, self._named_errors():
            connection = self._begun(begin)
            try:
                yield connection
            finally:
                self._give_back(connection)

    def _begun(self, begin: str) -> psycopg.Connection[Row]:
        """An idle connection that still works, else a new one."""
        while True:
            with self._lock:
                if not self._free:
                    break
                connection = self._free.pop()
            try:
                connection.execute(begin)
                return connection
            except psycopg.OperationalError:
                connection.close()
        connection = self.connect()
        connection.execute(begin)
        return connection

    def _give_back(self, connection: psycopg.Connection[Row]) -> None:
        with contextlib.suppress(psycopg.Error):
            if connection.info.transaction_status != pq.TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        if connection.closed or connection.info.transaction_status != pq.TransactionStatus.IDLE:
            connection.close()
            return
        with self._lock:
            self._free.append(connection)

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except self.refusals:
            raise
        except psycopg.errors.DiskFull as exc:
            raise DataDirFull(
                f"The job database cannot be written ({_first_line(exc)}): free space on its disk and try again. "
                "Nothing of earlier results is lost."
            ) from exc
        except psycopg.OperationalError as exc:
            raise StorageAway(self._words(exc)) from exc
        except psycopg.Error as exc:
            raise StorageUnavailable(self._words(exc)) from exc

    def _words(self, exc: psycopg.Error) -> str:
        return f"PARSER_DATABASE_URL: the job database {self.name} cannot be used ({_first_line(exc)})."


def _first_line(exc: BaseException) -> str:
    return (str(exc).strip().splitlines() or [type(exc).__name__])[0].rstrip(".")


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
