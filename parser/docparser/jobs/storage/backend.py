# SPDX-License-Identifier: Apache-2.0
"""Where jobs lie: rows in SQLite or PostgreSQL, files in the data directory or in a bucket.

Parsers on several machines share PostgreSQL, and the files as well: a data directory over a network, or a bucket.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from docparser.errors import StorageAway
from docparser.jobs.storage import repair
from docparser.jobs.storage.data_folder import Processes
from docparser.jobs.storage.files import JobFiles
from docparser.jobs.storage.job_folders import JobFolders
from docparser.jobs.storage.keeper import Keeper, SharedKeeper, Watcher
from docparser.jobs.storage.reconcile import YOUNG_S, reconcile
from docparser.jobs.storage.transaction import Database, Membership

if TYPE_CHECKING:
    from docparser.postgres.database import PostgresDatabase


log = logging.getLogger(__name__)
T = TypeVar("T")

START_S = 60.0  # PostgreSQL and the bucket may start at the same time
PAUSE_S = 1.0
GRACE_S = 15.0  # in which a living parser comes back after PostgreSQL or the network was away


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
    """The database, who works on it, and what watches it. Closed in this order: ``processes``, ``database``,
    ``keeper``."""

    database: Database
    processes: Membership
    keeper: Watcher


def open_sqlite(files: JobFolders, on_adopted: Callable[[], None]) -> Backend:
    """``on_adopted`` is called when a backup was put in the directory's place. Raises StorageUnavailable."""
    database = repair.open_database(files)
    processes = Processes(files.root / "processes")
    return Backend(database, processes, Keeper(files, database, processes, on_adopted))


def open_postgres(url: str, files: JobFiles, start_s: float = START_S, grace_s: float = GRACE_S) -> Backend:
    """Waits ``start_s`` seconds for PostgreSQL and a bucket. A parser that is away for ``grace_s`` seconds counts as
    dead.

    Raises StorageAway, StorageUnavailable, NotReady for a URL that cannot be read.
    """

    from docparser.postgres import schema  # psycopg is loaded only where it is used
    from docparser.postgres.database import PostgresDatabase
    from docparser.postgres.sessions import Sessions

    database = PostgresDatabase(url)
    deadline = time.monotonic() + start_s
    before = _patiently(lambda: _upgrade(database, files), deadline)
    if before < len(schema.MIGRATIONS):
        log.warning("the schema of the job database was brought from version %d to %d", before, len(schema.MIGRATIONS))
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
    """Try again until ``deadline`` if something is away."""
    while True:
        try:
            return step()
        except StorageAway as exc:
            if time.monotonic() > deadline:
                raise
            log.warning("%s Trying again.", exc)
            time.sleep(PAUSE_S)
