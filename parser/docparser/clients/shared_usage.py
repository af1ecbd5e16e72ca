# SPDX-License-Identifier: Apache-2.0
"""What clients have used of their quotas, in PostgreSQL: parsers on several machines count together."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from docparser.clients.usage import Slot, Statements, UsageLedger
from docparser.errors import DataDirFull, StorageUnavailable
from docparser.postgres.database import PostgresDatabase

log = logging.getLogger(__name__)


class SharedUsage(UsageLedger):
    """The tables are the job store's (``postgres.schema``). While the database is away, each parser counts in memory,
    and adds that later."""

    failures = (StorageUnavailable, DataDirFull)

    def __init__(self, url: str) -> None:
        """Raises NotReady if ``url`` cannot be read."""
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
