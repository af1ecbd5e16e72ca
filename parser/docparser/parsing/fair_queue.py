# SPDX-License-Identifier: Apache-2.0
"""Which task is next: clients take turns by the CPU time that they use, and so do the documents of a client.

Interactive pages come before bulk ones (``contract.request_parts``), of which some go first all the same. Bulk never
has the last place of the workers: an interactive page finds it free, and need not wait for another page's end.

The client that has used the least time of the workers is next (start-time fair queueing, Goyal, Vin and Cheng 1996, all
weights equal); of its flows, the one that has the fewest tasks with workers. So a document of one page does not wait
for the end of one of 500, and twenty documents that are just not slow cost others no more than one does. Who had
nothing to do starts level with the others: time that nobody else wanted is not held against anyone.

A document that is slow to read, which a worker finds out after some seconds, goes on *apart*: at low priority, besides
the page that has the worker's CPU. One client may have ``share`` documents there, half of the workers; a further one is
put back and read from the beginning when there is room. From the first one on, all documents of that client are read
apart, ``share`` at a time beside the slow ones, until it has had none for some time: a good document loses little by
that, and each further slow one no longer costs others anything.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import time
from collections.abc import Callable
from typing import Any

from docparser.contract.request_parts import is_bulk
from docparser.documents.spool import Document
from docparser.errors import ParserError
from docparser.parsing.pool import PooledWorker
from docparser.worker.messages import CountPages, ParsePage, PartOfPage, Task

WATCHED_S = 60.0  # after the last slow document of a client
FIRST_GUESS_S = 0.5  # of a task's time on the CPU
EXACT = 1e-9  # tenths add up to a little less than one


@dataclasses.dataclass(eq=False)
class QueuedTask:
    number: int
    task: Task
    flow: Flow
    future: asyncio.Future
    queued_at: float
    on_part: Callable[[PartOfPage], None] | None = None
    worker: PooledWorker | None = None
    assigned_at: float = 0.0
    went_on_at: float = 0.0  # since then nothing is known of it
    cancelled_at: float | None = None
    deaths: int = 0
    losses: int = 0
    slow: bool = False
    charged_s: float = 0.0

    @property
    def document(self) -> Document | None:
        """What it reads, if it does."""
        return self.task.document if isinstance(self.task, (CountPages, ParsePage)) else None

    def resolve(self, outcome: Any) -> None:
        """Tell who waits; a ParserError is raised there. Nothing happens if that was done before."""
        if self.future.done():
            return
        if isinstance(outcome, ParserError):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)


@dataclasses.dataclass(eq=False)
class Flow:
    """Tasks that take turns as one: those of a request, or those of a client's jobs.

    ``client`` names who sent them. ``assigned`` of them are with workers; ``turn`` grows with each assignment.
    """

    client: str = ""
    pending: collections.deque[QueuedTask] = dataclasses.field(default_factory=collections.deque)
    assigned: int = 0
    turn: int = 0


class Client:
    """``used_s`` is its time with workers. ``trying`` are read apart although they are not known to be slow, ``slow``
    are, ``parked`` wait to be."""

    def __init__(self, *, bulk: bool = False) -> None:
        self.bulk = bulk
        self.used_s = 0.0
        self.assigned = 0
        self.flows: dict[Flow, None] = {}  # those with pending tasks
        self.trying: set[QueuedTask] = set()
        self.slow: set[QueuedTask] = set()
        self.parked: collections.deque[QueuedTask] = collections.deque()
        self._watched_until = float("-inf")

    def watch(self) -> None:
        self._watched_until = time.monotonic() + WATCHED_S

    @property
    def watched(self) -> bool:
        return bool(self.slow or self.parked) or time.monotonic() < self._watched_until

    @property
    def active(self) -> bool:
        return bool(self.flows or self.assigned or self.parked)


class BulkShare:
    """Of the pages that are begun while both kinds wait, ``share`` (0 to 1) are bulk: so bulk never starves."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._owed = 0.0

    @property
    def bulk_first(self) -> bool:
        return self._owed >= 1 - EXACT

    def begun(self, *, bulk: bool, bulk_waits: bool = True) -> None:
        """A page was chosen. Where nobody knows whether bulk pages wait, they may."""
        owed = self._owed + self._share - bulk if bulk_waits else 0.0
        self._owed = min(max(owed, 0.0), 1 + self._share)  # no more is owed unless bulk pages find no room


class FairQueue:
    """The tasks that no worker has, and what each client has with workers."""

    def __init__(self, workers: int, pages_at_once: int, bulk_share: float) -> None:
        """``pages_at_once``: pages that all workers together may have begun."""
        self._most_bulk = max(1, pages_at_once - 1)
        self._bulk_share = BulkShare(bulk_share)
        self.share = max(1, workers // 2)
        self._most_apart = max(2, workers)
        self._clients: dict[str, Client] = {}
        self._level = {True: 0.0, False: 0.0}  # of bulk and interactive clients: the paper's virtual time, never falls
        self._turn = 0
        self._guess_s = FIRST_GUESS_S

    def client(self, name: str) -> Client:
        return self._clients.setdefault(name, Client(bulk=is_bulk(name)))

    def _come_back(self, client: Client) -> None:
        """It starts level with the one of its kind that was last to get a worker; in a quiet time, with the one that
        has used most. Those are forgotten who would start there too."""
        alike = {name: other for name, other in self._clients.items() if other.bulk == client.bulk}
        level = self._level[client.bulk]
        if not any(other.flows for other in alike.values()):
            level = max(level, *(other.used_s for other in alike.values()))
        self._level[client.bulk] = level
        client.used_s = max(client.used_s, level)
        for name, other in alike.items():
            if other is not client and not other.active and not other.watched and other.used_s <= level:
                del self._clients[name]

    def watches(self, name: str) -> bool:
        """Whether this client has, or had a moment ago, documents that are slow to read."""
        client = self._clients.get(name)
        return client is not None and client.watched

    @property
    def slow(self) -> int:
        return sum(len(client.slow) for client in self._clients.values())

    @property
    def _trying(self) -> int:
        return sum(len(client.trying) for client in self._clients.values())

    def waiting(self) -> list[QueuedTask]:
        """All but those that were put back."""
        return [item for client in self._clients.values() for flow in client.flows for item in flow.pending]

    def put_back(self) -> list[QueuedTask]:
        return [item for client in self._clients.values() for item in client.parked]

    def add(self, item: QueuedTask, *, first: bool = False) -> None:
        client = self.client(item.flow.client)
        if item.slow:
            client.parked.appendleft(item) if first else client.parked.append(item)
            return
        if not client.flows:
            self._come_back(client)
        item.flow.pending.appendleft(item) if first else item.flow.pending.append(item)
        client.flows[item.flow] = None

    def remove(self, item: QueuedTask) -> None:
        """Nobody waits for it any more."""
        client = self.client(item.flow.client)
        for queue in (client.parked, item.flow.pending):
            if item in queue:
                queue.remove(item)
        if not item.flow.pending:
            client.flows.pop(item.flow, None)

    def clear(self) -> list[QueuedTask]:
        """Remove and return all."""
        left = self.waiting() + self.put_back()
        for item in left:
            self.remove(item)
        return left

    def next(self) -> tuple[QueuedTask, bool] | None:
        """The next task, and whether its document is to be read apart."""
        clients = self._clients.values()
        bulk_first = self._bulk_share.bulk_first
        bulk_waits = any(client.bulk and client.flows for client in clients)
        bulk_has_room = sum(client.assigned for client in clients if client.bulk) < self._most_bulk
        for client in sorted(clients, key=lambda client: (client.bulk != bulk_first, client.used_s, client.assigned)):
            if client.bulk and not bulk_has_room:
                continue
            item = self._next_of(client)
            if item is not None:
                self._bulk_share.begun(bulk=client.bulk, bulk_waits=bulk_waits)
                return item, self._assign(item, client)
        return None

    def _next_of(self, client: Client) -> QueuedTask | None:
        """Opening a document comes first, which is short and finds its errors; then the flow with fewest assigned."""
        watched = client.watched
        may_try = len(client.trying) < self.share and self._trying < self._most_apart
        ready = [flow for flow in client.flows if not watched or may_try or flow.pending[0].document is None]
        if ready:
            flow = min(ready, key=lambda f: (isinstance(f.pending[0].task, ParsePage), f.assigned, f.turn))
            item = flow.pending.popleft()
            if not flow.pending:
                del client.flows[flow]
            return item
        if client.parked and self._has_room(client):
            return client.parked.popleft()
        return None

    def _has_room(self, client: Client) -> bool:
        return len(client.slow) < self.share and self.slow < self._most_apart

    def _assign(self, item: QueuedTask, client: Client) -> bool:
        apart = item.slow or (client.watched and item.document is not None)
        if item.slow:
            client.slow.add(item)
        elif apart:
            client.trying.add(item)
        self._turn += 1
        item.flow.turn = self._turn
        item.flow.assigned += 1
        client.assigned += 1
        self._level[client.bulk] = max(self._level[client.bulk], client.used_s)
        item.charged_s = 0.0 if apart else self._guess_s
        client.used_s += item.charged_s
        return apart

    def found_slow(self, item: QueuedTask) -> bool:
        """A worker that has ``item`` finds it slow. Returns whether it may go on there."""
        client = self.client(item.flow.client)
        client.watch()
        client.trying.discard(item)
        if item.slow:
            return True
        item.slow = True
        if not self._has_room(client):
            return False
        client.slow.add(item)
        return True

    def read(self, item: QueuedTask) -> None:
        """Its document has been read."""
        client = self.client(item.flow.client)
        client.trying.discard(item)
        if item in client.slow:
            client.slow.discard(item)
            client.watch()

    def ended(self, item: QueuedTask, used_s: float | None) -> None:
        """A worker no longer has ``item``, which had its CPU for ``used_s``; None if nobody knows."""
        client = self.client(item.flow.client)
        self.read(item)
        item.flow.assigned -= 1
        client.assigned -= 1
        if used_s is not None:
            client.used_s += used_s - item.charged_s
            self._guess_s += 0.05 * (used_s - self._guess_s)
