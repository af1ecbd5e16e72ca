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
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from docparser.clients.keys import RESOURCES, Quota, shown_time
from docparser.errors import DataDirFull, QuotaExceeded, StorageUnavailable
from docparser.job_tables import QUOTAS, statements
from docparser.settings import Settings

log = logging.getLogger(__name__)

FILE = "usage.sqlite3"
BUSY_S = 5.0
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
    """Methods block on the store. While it is away, amounts are counted in memory, and saved with the next of their
    slot."""

    def __init__(self, store: SqliteUsage | SharedUsage) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._unsaved: defaultdict[Slot, Counter[str]] = defaultdict(Counter)  # slot -> by reference, "" without one
        self._cleaned = 0.0

    @staticmethod
    def now() -> float:
        return time.time()

    def known(self) -> bool:
        """Whether anything was counted; looking for it makes no file."""
        return self._store.known()

    def used(self, client: str, quota: Quota) -> int:
        slot = client, quota.name, quota.window(time.time())[1]
        with self._lock:
            unsaved = self._unsaved.get(slot, Counter()).total()
            try:
                with self._store.reading() as connection:
                    return _amount(connection, slot) + unsaved
            except self._store.failures as exc:
                self._store.failed(exc)
                return unsaved

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
                with self._store.writing(client) as connection:
                    self._clean(connection, now)
                    for slot, quota, amount in slots:
                        for earlier, unsaved in self._unsaved[slot].items():
                            _count(connection, slot, unsaved, earlier)
                        if _count(connection, slot, amount, reference) and not force:
                            used = _amount(connection, slot)
                            if used > quota.most:
                                raise exceeded(quota, name, used - amount, amount, now)
                for slot, _, _ in slots:
                    self._unsaved.pop(slot, None)
            except self._store.failures as exc:
                self._store.failed(exc)
                slots = [one for one in slots if not reference or reference not in self._unsaved[one[0]]]
                for slot, quota, amount in slots:
                    used = self._unsaved[slot].total()
                    if not force and used + amount > quota.most:
                        raise exceeded(quota, name, used, amount, now) from None
                for slot, _, amount in slots:
                    self._unsaved[slot][reference] += amount

    def close(self) -> None:
        with self._lock:
            self._store.close()

    def _clean(self, connection: Statements, now: float) -> None:
        """Remove periods that are over, once an hour."""
        if now - self._cleaned > 3600:
            connection.execute("DELETE FROM used WHERE ends <= ?", (now,))
            connection.execute("DELETE FROM charged WHERE ends <= ?", (now,))
            for slot in [slot for slot in self._unsaved if slot[2] <= now]:
                del self._unsaved[slot]
            self._cleaned = now


def _amount(connection: Statements, slot: Slot) -> int:
    row = connection.execute("SELECT amount FROM used WHERE client = ? AND quota = ? AND ends = ?", slot).fetchone()
    return int(row[0]) if row else 0


def _count(connection: Statements, slot: Slot, amount: int, reference: str) -> bool:
    """False if the ``reference`` was charged before, which counts nothing."""
    client, quota, ends = slot
    if reference:
        charge = "INSERT INTO charged VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        if not connection.execute(charge, (f"{client} {reference}", quota, ends)).rowcount:
            return False
    connection.execute(
        "INSERT INTO used VALUES (?, ?, ?, ?) "
        "ON CONFLICT (client, quota, ends) DO UPDATE SET amount = used.amount + excluded.amount",
        (*slot, amount),
    )
    return True


class SqliteUsage:
    """The file at ``path``, which is made when there is something to count. Methods block; one thread at a time calls
    them."""

    failures: tuple[type[Exception], ...] = (sqlite3.Error,)
    """What ``reading`` and ``writing`` raise while the store cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None

    def known(self) -> bool:
        """Whether anything was counted; looking for it makes no file."""
        return self.path.exists()

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def reading(self) -> Iterator[Statements]:
        yield self._open()

    @contextlib.contextmanager
    def writing(self, client: str) -> Iterator[Statements]:
        """A transaction in which nobody else counts for ``client``."""
        connection = self._open()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def failed(self, exc: Exception) -> None:
        """A damaged file is set aside, and counting begins anew."""
        log.error("%s cannot be used (%s); quotas are counted in memory meanwhile", self.path, exc)
        self.close()
        if getattr(exc, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            with contextlib.suppress(OSError):
                self.path.replace(self.path.with_name(f"{self.path.name}.damaged"))
                for suffix in ("-wal", "-shm"):
                    self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            try:
                _to_write_ahead(connection)
                for statement in ("PRAGMA synchronous = NORMAL", *statements(QUOTAS, sqlite=True)):
                    connection.execute(statement)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection


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


class SharedUsage:
    """The same in PostgreSQL, in which parsers on several machines count together. The job store makes the tables
    (``postgres.schema``)."""

    failures: tuple[type[Exception], ...] = (StorageUnavailable, DataDirFull)

    def __init__(self, url: str) -> None:
        """Raises NotReady if ``url`` cannot be read."""
        from docparser.postgres.database import PostgresDatabase  # psycopg is loaded only where it is used

        self._database = PostgresDatabase(url)

    def known(self) -> bool:
        return True

    def close(self) -> None:
        self._database.close()

    def reading(self) -> AbstractContextManager[Statements]:
        return self._database.reading()

    @contextlib.contextmanager
    def writing(self, client: str) -> Iterator[Statements]:
        with self._database.writing() as transaction:
            transaction.lock_name(f"quotas of {client}")
            yield transaction

    def failed(self, exc: Exception) -> None:
        log.error("%s Quotas are counted in memory meanwhile.", exc)


def ledger_of(settings: Settings) -> UsageLedger:
    """Where quotas are counted: beside the jobs. Raises NotReady if PARSER_DATABASE_URL cannot be read."""
    if settings.database_url:
        return UsageLedger(SharedUsage(settings.database_url))
    return UsageLedger(SqliteUsage(settings.data_dir.expanduser().absolute() / FILE))
