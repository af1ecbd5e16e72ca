# SPDX-License-Identifier: Apache-2.0
"""The storage of jobs and its keepers: rows in SQLite or PostgreSQL, files in the data directory or in a bucket.

Parsers on several machines share PostgreSQL and the files: a data directory over a network, or a bucket. While the
service runs, a keeper checks that all of it can be used, and repairs it where possible.
"""

from __future__ import annotations

import abc
import dataclasses
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from docparser.errors import DataDirFull, StorageAway, StorageUnavailable
from docparser.jobs.storage import repair
from docparser.jobs.storage.data_folder import Processes
from docparser.jobs.storage.database import SqliteDatabase
from docparser.jobs.storage.files import JobFiles
from docparser.jobs.storage.job_folders import JobFolders
from docparser.jobs.storage.reconcile import YOUNG_S, reconcile
from docparser.jobs.storage.transaction import Database, Membership

if TYPE_CHECKING:
    from docparser.postgres.database import PostgresDatabase

log = logging.getLogger(__name__)
T = TypeVar("T")

COMPARE_S = 60.0  # between two looks for folders without a row
PROBE_S = 10.0  # between two probes of a healthy shared storage
START_S = 60.0  # PostgreSQL and the bucket may start at the same time
PAUSE_S = 1.0
GRACE_S = 15.0  # within which a living parser is back after PostgreSQL or the network was away


class Watcher(abc.ABC):
    """``look`` blocks on the disk; call it regularly, from one thread at a time. Any thread may read ``trouble``."""

    def __init__(self, storage: str) -> None:
        """``storage`` names the storage in trouble where an error does not."""
        self._storage = storage
        self._looking = threading.Lock()
        self.trouble = ""

    @abc.abstractmethod
    def close(self) -> None: ...

    def check(self) -> None:
        """Raises StorageUnavailable while there is trouble, even if `look` has not seen it yet. Cheap."""
        if self.trouble:
            raise StorageUnavailable(self.trouble)

    def words(self) -> str:
        """The same as words; "" if there is no trouble."""
        try:
            self.check()
        except StorageUnavailable as exc:
            return str(exc)
        return ""

    def look(self) -> None:
        """Check the storage; repair it, or set ``trouble``."""
        with self._looking:
            try:
                self._look()
            except (StorageUnavailable, DataDirFull) as exc:
                self._set(str(exc))
            except OSError as exc:
                self._set(f"{self._storage} cannot be used ({exc}).")
            else:
                self._set("")

    @abc.abstractmethod
    def _look(self) -> None: ...

    def _set(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.error("%s Jobs wait.", trouble) if trouble else log.warning("the job database can be used again")
        self.trouble = trouble


class Keeper(Watcher):
    """For SQLite and the data directory. Opens them again when they are back.

    It builds a missing or damaged database from the folders, opens another database of ours and makes it agree with
    them, and adopts a backup in the directory's place. For all else it waits, and says why.
    """

    def __init__(self, files: JobFolders, database: SqliteDatabase, processes: Processes) -> None:
        super().__init__(files.storage)
        self._files, self._database, self._processes = files, database, processes
        self._in_use = repair.mark_in_use(files.root)
        self._compared = time.monotonic()

    def close(self) -> None:
        self._in_use.close()

    def check(self) -> None:
        super().check()
        self._files.check()
        self._database.check_path()

    def _look(self) -> None:
        files, database = self._files, self._database
        if files.moved():
            log.warning("another directory with jobs is at %s; it is used from now on", files.root)
            files.adopt()
            self._in_use.close()
            self._in_use = repair.mark_in_use(files.root)
            self._open()
        files.check()
        if files.failure or self.trouble:
            files.probe()
        try:
            database.check_path()
            if database.failure or self.trouble:
                database.check()
            else:
                database.check_owner()
        except StorageUnavailable:
            self._open()
        if self._in_use.closed:
            self._in_use = repair.mark_in_use(files.root)
        self._processes.renew()
        if self.trouble or time.monotonic() - self._compared > COMPARE_S:
            self._compare(pages=bool(self.trouble))

    def _open(self) -> None:
        """Open the database at the path; build it if it is missing or damaged."""
        repair.opened(self._files, lambda: repair.reopen(self._files, self._database), self._in_use)
        log.warning("the job database was opened again")
        self._compare(pages=True)

    def _compare(self, *, pages: bool) -> None:
        repair.say(reconcile(self._database, self._files, young_s=YOUNG_S, pages=pages))
        self._compared = time.monotonic()


class SharedKeeper(Watcher):
    """For PostgreSQL, and the directory or bucket that parsers on several machines share.

    PostgreSQL keeps its own files in order, and its rows count, so nothing is rebuilt here. After a database was
    restored from a backup, folders without rows get theirs. An unreachable storage is waited for. Pages are not
    compared, because a network file system may show a folder late, without its newest pages.
    """

    def __init__(self, files: JobFiles, database: PostgresDatabase, processes: Membership) -> None:
        super().__init__(files.storage)
        self._files, self._database, self._processes = files, database, processes
        self._compared = self._probed = time.monotonic()

    def close(self) -> None:
        pass

    def check(self) -> None:
        super().check()
        self._files.check()

    def _look(self) -> None:
        self._processes.renew()  # first: others take this parser for dead while its session is gone
        if self._files.failure or self.trouble or time.monotonic() - self._probed > PROBE_S:
            self._files.probe()
            self._probed = time.monotonic()
        self._files.check()
        self._database.check()
        if self.trouble or time.monotonic() - self._compared > COMPARE_S:
            reconcile(self._database, self._files, young_s=YOUNG_S, pages=False)
            self._compared = time.monotonic()


def open_files(root: Path, min_free_mib: int, storage_url: str, copies: Path | None) -> JobFiles:
    """``storage_url``: "" for folders below ``root``, else ``s3://bucket/prefix``, with a folder for local ``copies``.

    Raises OSError, NotReady.
    """
    if not storage_url:
        return JobFolders(root, min_free_mib)
    from docparser.jobs.storage.job_objects import JobObjects  # boto3 is loaded only where it is used

    root.mkdir(parents=True, exist_ok=True, mode=0o700)  # keys of clients stay there
    return JobObjects(storage_url, copies)


@dataclasses.dataclass(frozen=True)
class Backend:
    """The database, its processes and its keeper. Close ``processes``, ``database``, ``keeper`` in this order."""

    database: Database
    processes: Membership
    keeper: Watcher


def open_sqlite(files: JobFolders) -> Backend:
    """Raises StorageUnavailable."""
    database = repair.open_database(files)
    processes = Processes(files.root / "processes")
    return Backend(database, processes, Keeper(files, database, processes))


def open_postgres(url: str, files: JobFiles, start_s: float = START_S, grace_s: float = GRACE_S) -> Backend:
    """Waits ``start_s`` seconds for PostgreSQL and a bucket. A parser that is away for ``grace_s`` seconds counts as
    dead.

    Raises StorageAway, StorageUnavailable, NotReady for a URL that cannot be read.
    """

    from docparser.postgres import schema  # psycopg is loaded only where it is used
    from docparser.postgres.database import PostgresDatabase, Sessions

    database = PostgresDatabase(url)
    deadline = time.monotonic() + start_s
    before = _patiently(lambda: _upgrade(database, files), deadline)
    if before < (newest := max(schema.MIGRATIONS)):
        log.warning("the schema of the job database was brought from version %d to %d", before, newest)
    processes = _patiently(lambda: Sessions(database, grace_s), deadline)
    repair.say(_patiently(lambda: reconcile(database, files, young_s=YOUNG_S, pages=False), deadline))
    return Backend(database, processes, SharedKeeper(files, database, processes))


def _upgrade(database: PostgresDatabase, files: JobFiles) -> int:
    """Bring the schema up to date; returns the version before."""
    from docparser.postgres import schema

    with database.writing() as transaction:
        before = schema.upgrade(transaction)
        schema.bind(transaction, files.storage_id(), files.storage)
    return before


def _patiently(step: Callable[[], T], deadline: float) -> T:
    """Try the step again until ``deadline`` while something is away."""
    while True:
        try:
            return step()
        except StorageAway as exc:
            if time.monotonic() > deadline:
                raise
            log.warning("%s Trying again.", exc)
            time.sleep(PAUSE_S)
