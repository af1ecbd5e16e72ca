# SPDX-License-Identifier: Apache-2.0
"""The two databases that the job store can have: SQLite in the data directory, or PostgreSQL for parsers on several
machines, which share the files of jobs as well: a data directory over a network, or a bucket."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from docparser.errors import StorageUnavailable
from docparser.jobs.storage import repair
from docparser.jobs.storage.files import JobFiles
from docparser.jobs.storage.job_folders import JobFolders
from docparser.jobs.storage.keeper import Keeper
from docparser.jobs.storage.processes import Processes
from docparser.jobs.storage.reconcile import YOUNG_S, reconcile
from docparser.jobs.storage.transaction import Database, Presence
from docparser.jobs.storage.watcher import Watcher

if TYPE_CHECKING:
    from docparser.postgres.database import PostgresDatabase

log = logging.getLogger(__name__)

START_S = 60.0  # PostgreSQL may start at the same time
PAUSE_S = 1.0
GRACE_S = 15.0  # in which a living parser comes back after PostgreSQL or the network was away


@dataclasses.dataclass(frozen=True)
class Backend:
    """The database, who works on it, and what watches it. Closed in this order: ``processes``, ``database``,
    ``keeper``."""

    database: Database
    processes: Presence
    keeper: Watcher


def open_sqlite(files: JobFolders, on_adopted: Callable[[], None]) -> Backend:
    """``on_adopted`` is called when a backup was put in the directory's place. Raises StorageUnavailable."""
    database = repair.open_database(files)
    processes = Processes(files.root / "processes")
    return Backend(database, processes, Keeper(files, database, processes, on_adopted))


def open_postgres(url: str, files: JobFiles, start_s: float = START_S, grace_s: float = GRACE_S) -> Backend:
    """Waits ``start_s`` seconds for PostgreSQL. A parser that is away for ``grace_s`` seconds counts as dead.

    Raises StorageUnavailable, NotReady for a URL that cannot be read.
    """
    from docparser.jobs.storage.shared_keeper import SharedKeeper  # psycopg is loaded only where it is used
    from docparser.postgres import schema
    from docparser.postgres.database import PostgresDatabase
    from docparser.postgres.presence import Presence as Session

    database = PostgresDatabase(url)
    before = _upgrade(database, files, time.monotonic() + start_s)
    if before < len(schema.MIGRATIONS):
        log.warning("the schema of the job database was brought from version %d to %d", before, len(schema.MIGRATIONS))
    processes = Session(database, grace_s)
    repair.say(reconcile(database, files, young_s=YOUNG_S, pages=False))
    return Backend(database, processes, SharedKeeper(files, database, processes))


def _upgrade(database: PostgresDatabase, files: JobFiles, deadline: float) -> int:
    """Bring the schema up to date, and try again until ``deadline`` if PostgreSQL is not there; returns the version
    before."""
    import psycopg

    from docparser.postgres import schema

    while True:
        try:
            with database.writing() as transaction:
                before = schema.upgrade(transaction)
                schema.bind(transaction, files.place_id(), files.place)
            return before
        except StorageUnavailable as exc:
            if time.monotonic() > deadline or not isinstance(exc.__cause__, psycopg.OperationalError):
                raise
            log.warning("%s Trying again.", exc)
            time.sleep(PAUSE_S)
