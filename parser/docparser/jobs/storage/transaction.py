# SPDX-License-Identifier: Apache-2.0
"""What the job store needs of a database. ``database`` is SQLite's, ``docparser.postgres`` is PostgreSQL's; every
statement of the store is written once, in SQL that both read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol


class Row(Protocol):
    """Values by place and by name."""

    def __getitem__(self, key: Any, /) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...


class Rows(Protocol):
    """What a statement found."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Transaction(Protocol):
    """Statements have `?` or `:name` for values. Locks last until the transaction ends; SQLite has one writer at a time
    and needs none."""

    def execute(self, statement: str, values: Any = (), /) -> Rows: ...

    def executemany(self, statement: str, values: Iterable[Any], /) -> object: ...

    def taking(self, table: str) -> Sequence[str]:
        """Endings of the SELECT that takes a row of ``table`` for this transaction, to be tried in this order."""

    def lock_job(self, job_id: str) -> None:
        """Nobody else changes the job, its steps or their number. Each transaction that changes a job begins so."""

    def lock_queue(self) -> None:
        """Nobody else lets a job into the queue. Comes before locks of jobs."""

    def tick(self) -> int:
        """The number of the next change; within one job, numbers rise in the order of commits. Watchers ask for what
        changed after the last number they saw."""


class Database(Protocol):
    """Methods raise StorageUnavailable and DataDirFull."""

    refusals: tuple[type[Exception], ...]
    """The exceptions of a statement whose values no row may have."""

    def writing(self) -> contextlib.AbstractContextManager[Transaction]:
        """A transaction: committed at the end, or undone. Raises OutcomeUnknown if nobody knows which."""

    def reading(self) -> contextlib.AbstractContextManager[Transaction]:
        """One snapshot for all queries inside."""

    def version(self) -> object:
        """A value that changes when anybody has committed a change; cheap enough to ask several times a second."""

    def close(self) -> None: ...


class Membership(Protocol):
    """The processes that work on the queue. ``name`` is this process's, unique for all time."""

    name: str

    def renew(self) -> None:
        """Renew this process's sign of life, if it is gone."""

    def dead(self, names: Sequence[str]) -> list[str]:
        """Those of ``names`` that have ended."""

    def close(self) -> None: ...
