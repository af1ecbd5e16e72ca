# SPDX-License-Identifier: Apache-2.0
"""Whose page is next. Interactive pages go before bulk ones, which keep a share. Clients take turns, and so do the jobs
of a client.

Every claimed page counts as one turn of its job and of its client. The client with the fewest turns is next, with its
job that has the fewest (stride scheduling, Waldspurger and Weihl 1995, all strides equal). So a document of 300 pages
takes its turns between the small ones, and no job waits for all pages of another one.

``parsing/scheduler`` orders the claimed pages, together with those of ``/layout-parsing``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Literal

from docparser.contract.request_parts import BULK
from docparser.jobs.storage.transaction import Row, Transaction

IS_ACTIVE = "state IN ('pending', 'running')"
IS_BULK = f"(substr(j.flow, length(j.flow) - {len(BULK) - 1}) = '{BULK}')"


@dataclasses.dataclass(frozen=True)
class Eligible:
    """Which jobs may be next: none of the clients in ``without``; ``bulk`` says whether bulk jobs come first, last or
    not at all."""

    without: Collection[str] = ()
    bulk: Literal["first", "last", "none"] = "last"


ANY = Eligible()


def next_job(connection: Transaction, now: float, eligible: Eligible) -> Row | None:
    """The row of the job whose turn it is, among those with a step that is due at ``now`` (seconds since the epoch).
    The job is locked."""
    others = f"AND j.flow NOT IN ({', '.join('?' * len(eligible.without))}) " if eligible.without else ""
    if eligible.bulk == "none":
        others += f"AND NOT {IS_BULK} "
    kind = f"{'NOT ' if eligible.bulk == 'first' else ''}{IS_BULK}"
    for taking in connection.taking("j"):
        found: Row | None = connection.execute(
            "SELECT j.* FROM jobs j JOIN flows f ON f.flow = j.flow "
            f"WHERE j.{IS_ACTIVE} {others}AND EXISTS ("
            "  SELECT 1 FROM steps WHERE job_id = j.id AND state = 'queued' AND not_before <= ?) "
            f"ORDER BY {kind}, f.turns, f.flow, j.turns, j.created LIMIT 1{taking}",
            (*eligible.without, now),
        ).fetchone()
        if found is not None:
            return found
    return None


def take(connection: Transaction, job_id: str, flow: str, now: float, *, is_page: bool) -> None:
    """Count a turn and start the job. Opening a document counts no turn, because it is short and finds errors early."""
    turn = 1 if is_page else 0
    connection.execute(
        "UPDATE jobs SET state = 'running', started = coalesce(started, ?), turns = turns + ? WHERE id = ?",
        (now, turn, job_id),
    )
    connection.execute("UPDATE flows SET turns = turns + ? WHERE flow = ?", (turn, flow))


def initial(connection: Transaction, flow: str) -> float:
    """The turns that a new job starts with.

    A new client or job gets no credit for its absence: it starts with as many turns as the one in the queue that had
    the fewest. The queue is locked.
    """
    (here,) = connection.execute(f"SELECT min(turns) FROM jobs WHERE flow = ? AND {IS_ACTIVE}", (flow,)).fetchone()
    if here is None:
        (others,) = connection.execute(
            f"SELECT min(f.turns) FROM flows f WHERE EXISTS (SELECT 1 FROM jobs WHERE flow = f.flow AND {IS_ACTIVE})"
        ).fetchone()
        connection.execute(
            "INSERT INTO flows VALUES (?, ?) ON CONFLICT (flow) DO UPDATE SET turns = excluded.turns "
            "WHERE flows.turns < excluded.turns",
            (flow, others or 0.0),
        )
    return float(here or 0.0)
