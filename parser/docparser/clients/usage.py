# SPDX-License-Identifier: Apache-2.0
"""What each client has used of its quotas: one number per client, quota and period in a small SQLite file.

All parsers over one data directory share it, and it survives ``kill -9``. ``synchronous=NORMAL`` may lose the last
moments at a power failure, which costs nobody a document. While the file cannot be written (a full disk), the counts
go on in memory: a quota protects against too much work, and must not itself keep a service from working.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from docparser.clients.keys import RESOURCES, Quota, shown_time
from docparser.errors import DataDirFull, QuotaExceeded, StorageUnavailable
from docparser.settings import Settings

log = logging.getLogger(__name__)

FILE = "usage.sqlite3"
BUSY_S = 5.0
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS used (client TEXT, quota TEXT, ends INTEGER, amount INTEGER NOT NULL, "
    "PRIMARY KEY (client, quota, ends)) WITHOUT ROWID",
    # What was charged once and must not be charged again, like the pages of a job that is opened a second time.
    "CREATE TABLE IF NOT EXISTS charged (reference TEXT, quota TEXT, ends INTEGER, "
    "PRIMARY KEY (reference, quota)) WITHOUT ROWID",
)
Slot = tuple[str, str, int]  # client, quota, end of the period


class Statements(Protocol):
    """A connection of SQLite, or a transaction of PostgreSQL (``SharedUsage``)."""

    def execute(self, statement: str, values: Any = (), /) -> Any: ...


def exceeded(quota: Quota, name: str, used: int, wanted: int, now: float) -> QuotaExceeded:
    """The error that names quota, limit, what was used, and when the client may come back."""
    _, ends = quota.window(now)
    left = max(0, quota.most - used)
    unit = RESOURCES[quota.resource]
    error = QuotaExceeded(
        f"The quota {quota} of the key {name!r} does not allow this: {left} of {quota.most} {unit} are left, and "
        f"{wanted} {'is' if wanted == 1 else 'are'} needed. It begins anew at {shown_time(ends)}."
    )
    error.quota, error.limit, error.used = quota.name, quota.most, used
    error.retry_after_s = max(1, int(ends - now) + 1)
    return error


class UsageLedger:
    """Methods block on the disk. The file is made when there is something to count."""

    failures: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._unsaved: Counter[Slot] = Counter()
        self._cleaned = 0.0

    @staticmethod
    def now() -> float:
        return time.time()

    def known(self) -> bool:
        """Whether anything was counted; looking for it makes no file."""
        return self.path.exists()

    def used(self, client: str, quota: Quota) -> int:
        slot = client, quota.name, quota.window(time.time())[1]
        with self._lock:
            try:
                with self._reading() as connection:
                    return self._amount(connection, slot) + self._unsaved[slot]
            except self.failures as exc:
                return self._given_up(exc)[slot]

    def spend(
        self, client: str, name: str, wanted: Sequence[tuple[Quota, int]], *, reference: str = "", force: bool = False
    ) -> None:
        """Count ``wanted`` amounts, all or none. With a ``reference``, the same call again counts nothing.

        Raises QuotaExceeded, unless ``force`` says that the work is done already.
        """
        now = time.time()
        slots = [((client, quota.name, quota.window(now)[1]), quota, amount) for quota, amount in wanted]
        with self._lock:
            try:
                with self._writing(client, now) as connection:
                    for slot, quota, amount in slots:
                        if reference and not _first_time(connection, f"{client} {reference}", slot):
                            continue
                        used = self._amount(connection, slot)
                        if not force and used + self._unsaved[slot] + amount > quota.most:
                            raise exceeded(quota, name, used, amount, now)
                        connection.execute(
                            "INSERT INTO used VALUES (?, ?, ?, ?) "
                            "ON CONFLICT (client, quota, ends) DO UPDATE SET amount = used.amount + excluded.amount",
                            (*slot, amount + self._unsaved[slot]),
                        )
                for slot, _, _ in slots:
                    self._unsaved.pop(slot, None)
            except self.failures as exc:
                unsaved = self._given_up(exc)
                for slot, quota, amount in slots:
                    if not force and unsaved[slot] + amount > quota.most:
                        raise exceeded(quota, name, unsaved[slot], amount, now) from None
                for slot, _, amount in slots:
                    unsaved[slot] += amount

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            try:
                _to_write_ahead(connection)
                for statement in ("PRAGMA synchronous = NORMAL", *SCHEMA):
                    connection.execute(statement)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Statements]:
        yield self._open()

    @contextlib.contextmanager
    def _writing(self, client: str, now: float) -> Iterator[Statements]:
        """A transaction in which nobody else counts for ``client``."""
        connection = self._open()
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._clean(connection, now)
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def _clean(self, connection: Statements, now: float) -> None:
        """Remove periods that are over, once an hour."""
        if now - self._cleaned > 3600:
            connection.execute("DELETE FROM used WHERE ends <= ?", (now,))
            connection.execute("DELETE FROM charged WHERE ends <= ?", (now,))
            self._cleaned = now

    @staticmethod
    def _amount(connection: Statements, slot: Slot) -> int:
        row = connection.execute("SELECT amount FROM used WHERE client = ? AND quota = ? AND ends = ?", slot).fetchone()
        return int(row[0]) if row else 0

    def _given_up(self, exc: Exception) -> Counter[Slot]:
        """Counts in memory, after an error of the file; a damaged file is set aside, and counting begins anew."""
        log.error("%s cannot be used (%s); quotas are counted in memory meanwhile", self.path, exc)
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        if getattr(exc, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            with contextlib.suppress(OSError):
                self.path.replace(self.path.with_name(f"{self.path.name}.damaged"))
                for suffix in ("-wal", "-shm"):
                    self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        return self._unsaved


def _to_write_ahead(connection: sqlite3.Connection) -> None:
    """SQLite does not wait for others that open the file at the same time when it changes the kind of its journal."""
    until = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _first_time(connection: Statements, reference: str, slot: Slot) -> bool:
    _, quota, ends = slot
    return bool(
        connection.execute(
            "INSERT INTO charged VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (reference, quota, ends)
        ).rowcount
    )


class SharedUsage(UsageLedger):
    """Usage in PostgreSQL, where parsers on several machines count together. The tables are the job store's
    (``postgres.schema``). While the database is away, each parser counts in memory, and adds that later."""

    failures = (StorageUnavailable, DataDirFull)

    def __init__(self, url: str) -> None:
        """Raises NotReady if ``url`` cannot be read."""
        from docparser.postgres.database import PostgresDatabase  # psycopg is loaded only where it is used

        super().__init__(Path())
        self._database = PostgresDatabase(url)

    def known(self) -> bool:
        return True

    def close(self) -> None:
        self._database.close()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Statements]:
        with self._database.reading() as transaction:
            yield transaction

    @contextlib.contextmanager
    def _writing(self, client: str, now: float) -> Iterator[Statements]:
        with self._database.writing() as transaction:
            transaction.lock_name(f"quotas of {client}")
            self._clean(transaction, now)
            yield transaction

    def _given_up(self, exc: Exception) -> Counter[Slot]:
        log.error("%s Quotas are counted in memory meanwhile.", exc)
        return self._unsaved


def ledger_of(settings: Settings) -> UsageLedger:
    """Where quotas are counted: beside the jobs. Raises NotReady if PARSER_DATABASE_URL cannot be read."""
    if settings.database_url:
        return SharedUsage(settings.database_url)
    return UsageLedger(settings.data_dir.expanduser().absolute() / FILE)
