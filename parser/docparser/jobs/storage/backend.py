# SPDX-License-Identifier: Apache-2.0
"""The two databases that the job store can have: SQLite in the data directory, or PostgreSQL for parsers on several
machines, which share the data directory as well (NFS or the like)."""

from __future__ import annotations

import dataclasses
import logging
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from docparser.errors import StorageUnavailable
from docparser.jobs.storage import repair
from docparser.jobs.storage.files import JobFiles
from docparser.jobs.storage.keeper import Keeper
from docparser.jobs.storage.processes import Processes
from docparser.jobs.storage.reconcile import YOUNG_S, reconcile
from docparser.jobs.storage.transaction import Database, Presence
from docparser.jobs.storage.watcher import Watcher

if TYPE_CHECKING:
    from docparser.postgres.database import PostgresDatabase

log = logging.getLogger(__name__)

PLACE = "place.id"  # in the data directory: tells it from others, on every machine alike
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


def open_sqlite(files: JobFiles, on_adopted: Callable[[], None]) -> Backend:
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
    before = _upgrade(database, place_id(files.root), time.monotonic() + start_s)
    if before < len(schema.MIGRATIONS):
        log.warning("the schema of the job database was brought from version %d to %d", before, len(schema.MIGRATIONS))
    processes = Session(database, grace_s)
    repair.say(reconcile(database, files, young_s=YOUNG_S, pages=False))
    return Backend(database, processes, SharedKeeper(files, database, processes))


def _upgrade(database: PostgresDatabase, place: str, deadline: float) -> int:
    """Bring the schema up to date, and try again until ``deadline`` if PostgreSQL is not there; returns the version
    before."""
    import psycopg

    from docparser.postgres import schema

    while True:
        try:
            with database.writing() as transaction:
                before = schema.upgrade(transaction)
                schema.bind(transaction, place)
            return before
        except StorageUnavailable as exc:
            if time.monotonic() > deadline or not isinstance(exc.__cause__, psycopg.OperationalError):
                raise
            log.warning("%s Trying again.", exc)
            time.sleep(PAUSE_S)


def place_id(root: Path) -> str:
    """The directory's id, made by whichever process comes first."""
    path = root / PLACE
    if not path.exists():
        new = root / f".{PLACE}-{secrets.token_hex(8)}"
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(16))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(new, path)
        except FileExistsError:
            pass
        finally:
            new.unlink()
    return path.read_text().strip()
