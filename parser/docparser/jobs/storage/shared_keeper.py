# SPDX-License-Identifier: Apache-2.0
"""Watches the database and the directory or bucket that parsers on several machines share, while the service runs.

PostgreSQL keeps its own files in order, and its rows are what counts. So nothing is rebuilt here. Folders without a
row, of a database that was restored from a backup, get theirs; all else waits until it is back. Pages are not compared:
a network file system may show a folder as it was some moments ago, without the newest pages.
"""

from __future__ import annotations

import time

from docparser.jobs.storage.files import JobFiles
from docparser.jobs.storage.reconcile import YOUNG_S, reconcile
from docparser.jobs.storage.transaction import Presence
from docparser.jobs.storage.watcher import Watcher
from docparser.postgres.database import PostgresDatabase

PROBE_S = 10.0  # between two uses of a place that seems well
COMPARE_S = 60.0  # between two looks for folders without a row


class SharedKeeper(Watcher):
    def __init__(self, files: JobFiles, database: PostgresDatabase, processes: Presence) -> None:
        super().__init__(files.place)
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
