# SPDX-License-Identifier: Apache-2.0
"""Watches the data directory and the database while the service runs, and opens them again when they are back.

What it can mend it mends: a missing or damaged database is built from the folders, another database of ours is opened
and made to agree with them, a backup in the directory's place is adopted. For the rest it waits, and says why.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from docparser.errors import StorageUnavailable
from docparser.jobs.storage import repair
from docparser.jobs.storage.database import SqliteDatabase
from docparser.jobs.storage.job_folders import JobFolders
from docparser.jobs.storage.processes import Processes
from docparser.jobs.storage.reconcile import YOUNG_S, reconcile
from docparser.jobs.storage.schema import Damaged
from docparser.jobs.storage.watcher import Watcher

log = logging.getLogger(__name__)

COMPARE_S = 60.0  # between two looks for folders without a row


class Keeper(Watcher):
    def __init__(
        self, files: JobFolders, database: SqliteDatabase, processes: Processes, on_adopted: Callable[[], None]
    ) -> None:
        super().__init__(files.place)
        self._files, self._database, self._processes = files, database, processes
        self._on_adopted = on_adopted
        self._in_use = repair.mark_in_use(files.root)
        self._compared = time.monotonic()

    def close(self) -> None:
        self._in_use.close()

    def check(self) -> None:
        super().check()
        self._files.data.check()
        self._database.check_path()

    def _look(self) -> None:
        data, database = self._files.data, self._database
        if data.moved():
            log.warning("another directory with jobs is at %s; it is used from now on", data.root)
            data.adopt()
            self._in_use.close()
            self._in_use = repair.mark_in_use(data.root)
            self._on_adopted()
            self._open()
        data.check()
        if data.failure or self.trouble:
            data.probe()
        try:
            database.check_path()
            if database.failure or self.trouble:
                database.check()
                database.failure = ""
            else:
                database.check_owner()
        except StorageUnavailable:
            self._open()
        if self._in_use.closed:
            self._in_use = repair.mark_in_use(data.root)
        self._processes.renew()
        if self.trouble or time.monotonic() - self._compared > COMPARE_S:
            self._compare(pages=bool(self.trouble))

    def _open(self) -> None:
        """Open what is at the path; build it where it is missing or damaged."""
        try:
            repair.make_if_missing(self._files)
            repair.reopen(self._files, self._database)
        except Damaged as exc:
            log.error("%s", exc)
            self._in_use.close()  # until it is mended: processes that find the damage must not wait for each other
            with repair.exclusive(self._files.root):
                repair.set_aside(self._files)
                repair.make_if_missing(self._files)
            repair.reopen(self._files, self._database)
        log.warning("the job database was opened again")
        self._compare(pages=True)

    def _compare(self, *, pages: bool) -> None:
        repair.say(reconcile(self._database, self._files, young_s=YOUNG_S, pages=pages))
        self._compared = time.monotonic()
