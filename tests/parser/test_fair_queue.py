# SPDX-License-Identifier: Apache-2.0
"""What a client has used, and whose documents are slow: the books by which the next task is chosen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from docparser.documents.spool import Document
from docparser.parsing import fair_queue
from docparser.parsing.fair_queue import FIRST_GUESS_S, WATCHED_S, BulkShare, FairQueue, Flow, QueuedTask
from docparser.worker.messages import ParsePage

NOBODY: Any = None


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    time = [1000.0]
    monkeypatch.setattr(fair_queue, "time", SimpleNamespace(monotonic=lambda: time[0]))
    return time


def page(client: str, flow: Flow | None = None) -> QueuedTask:
    return QueuedTask(1, ParsePage(Document("a", "PDF"), 0, NOBODY), flow or Flow(client), NOBODY, 0.0)


def begun(queue: FairQueue, client: str = "one") -> QueuedTask:
    queue.add(page(client))
    chosen = queue.next()
    assert chosen is not None
    return chosen[0]


def test_a_task_is_charged_by_a_guess_until_its_time_is_known(now: list[float]):
    queue = FairQueue(1, 8, 0.0)
    first, second, third = begun(queue), begun(queue), begun(queue)
    client = queue.client("one")
    assert (client.used_s, client.assigned, first.flow.assigned) == (3 * FIRST_GUESS_S, 3, 1)
    queue.ended(first, 2.5)
    assert client.used_s == 2.5 + 2 * FIRST_GUESS_S and (client.assigned, first.flow.assigned) == (2, 0)
    queue.ended(second, None)
    assert client.used_s == 2.5 + 2 * FIRST_GUESS_S, "nobody knows, so the guess stays"
    queue.ended(third, 0.0)
    assert client.used_s == 2.5 + FIRST_GUESS_S
    before = client.used_s
    begun(queue)
    assert FIRST_GUESS_S < client.used_s - before < 2.5, "the guess has come nearer to what was used"


def test_what_is_read_apart_is_charged_by_what_it_used(now: list[float]):
    queue = FairQueue(1, 8, 0.0)
    slow = begun(queue)
    assert queue.found_slow(slow)
    client = queue.client("one")
    before = client.used_s
    tried = begun(queue)
    assert client.trying == {tried} and client.used_s == before
    queue.ended(tried, 0.25)
    assert client.used_s == before + 0.25 and client.trying == set()


def test_a_client_is_watched_for_a_while_after_its_last_slow_document(now: list[float]):
    queue = FairQueue(1, 8, 0.0)
    slow = begun(queue)
    assert not queue.watches("one") and not queue.watches("another")
    assert queue.found_slow(slow)
    now[0] += 10 * WATCHED_S
    assert queue.watches("one") and queue.slow == 1, "as long as it has one"
    queue.read(slow)
    assert queue.watches("one") and queue.slow == 0
    now[0] += WATCHED_S - 1
    assert queue.watches("one")
    now[0] += 2
    assert not queue.watches("one") and not queue.watches("another")


@pytest.mark.parametrize(("workers", "of_one", "of_all"), [(1, 1, 2), (2, 1, 2), (4, 2, 4), (5, 2, 5), (16, 8, 16)])
def test_how_many_slow_documents_have_workers(now: list[float], workers: int, of_one: int, of_all: int):
    queue = FairQueue(workers, 99, 0.0)
    went_on = [queue.found_slow(item) for item in [begun(queue) for _ in range(of_one + 1)]]
    assert went_on == [True] * of_one + [False]
    for number in range(of_all - of_one):
        assert queue.found_slow(begun(queue, f"other {number}"))
    assert queue.slow == of_all and not queue.found_slow(begun(queue, "last"))


def work(queue: FairQueue, used_s: float) -> str:
    """The next task is done. Returns whose it was."""
    chosen = queue.next()
    assert chosen is not None
    queue.ended(chosen[0], used_s)
    return chosen[0].flow.client


def test_who_used_a_quiet_time_does_not_pay_for_it(now: list[float]):
    queue = FairQueue(1, 8, 0.0)
    for _ in range(300):
        queue.ended(begun(queue, "office"), 0.5)
    flow = Flow("new")
    for _ in range(500):
        queue.add(page("new", flow))
    assert work(queue, 0.5) == "new"
    queue.add(page("office"))
    assert "office" in [work(queue, 0.5) for _ in range(3)]


def test_who_waits_because_its_documents_are_slow_is_no_level_to_start_at(now: list[float]):
    """Its pages wait for room among its own; what others used meanwhile is no debt."""
    queue = FairQueue(1, 8, 0.0)
    slow = begun(queue, "slow")
    assert queue.found_slow(slow)
    queue.add(page("slow"))
    queue.next()
    queue.add(page("slow"))  # of one worker, one document at a time
    for _ in range(300):
        queue.ended(begun(queue, "office"), 0.5)
    flow = Flow("new")
    for _ in range(500):
        queue.add(page("new", flow))
    queue.add(page("office"))
    assert "office" in [work(queue, 0.5) for _ in range(3)]


def test_clients_are_forgotten_once_they_would_gain_nothing(now: list[float]):
    queue = FairQueue(1, 8, 0.0)
    for number in range(100):
        queue.ended(begun(queue, str(number)), 1.0)
    slow = begun(queue, "slow")
    assert queue.found_slow(slow)
    queue.ended(slow, 1.0)
    queue.ended(begun(queue, "busy"), 9.0)
    queue.add(page("busy"))
    assert set(queue._clients) == {"slow", "busy"}
    now[0] += WATCHED_S + 1
    queue.add(page("new"))
    assert set(queue._clients) == {"busy", "new"}
    assert queue.client("new").used_s == queue.client("busy").used_s, "it starts level with who is there"


def test_bulk_starts_level_with_bulk(now: list[float]):
    queue = FairQueue(4, 99, 0.0)
    queue.ended(begun(queue, "office"), 30.0)
    queue.ended(begun(queue, "archive bulk"), 7.0)
    for name in ("office", "archive bulk", "b", "b bulk"):
        queue.add(page(name))
    assert (queue.client("b bulk").used_s, queue.client("b").used_s) == (7.0, 30.0)


def test_of_a_clients_requests_the_one_with_fewest_pages_at_work_then_the_one_that_waited_longest():
    queue, flows = FairQueue(1, 99, 0.0), [Flow("one"), Flow("one"), Flow("one")]
    for flow in flows:
        for _ in range(4):
            queue.add(page("one", flow))
    order = []
    for _ in range(6):
        chosen = queue.next()
        assert chosen is not None
        order.append(flows.index(chosen[0].flow))
        if order == [0, 1, 2]:
            queue.ended(chosen[0], 0.1)
    assert order == [0, 1, 2, 2, 0, 1]


def test_what_is_added_first_comes_before_the_others_and_what_is_removed_never():
    queue, flow = FairQueue(1, 99, 0.0), Flow("one")
    first, second, third = (page("one", flow) for _ in range(3))
    queue.add(first)
    queue.add(second)
    queue.add(third, first=True)
    queue.remove(second)
    assert queue.waiting() == [third, first] and queue.clear() == [third, first]
    assert queue.next() is None and queue.waiting() == []


def test_nothing_is_owed_to_bulk_that_does_not_wait():
    quarter = BulkShare(0.25)
    for _ in range(9):
        quarter.begun(bulk=False, bulk_waits=False)
    assert not quarter.bulk_first


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 0.5, 0.9, 1.0])
def test_bulk_has_its_share_of_the_pages_that_are_begun(share: float):
    shared, bulk = BulkShare(share), 0
    for _ in range(1000):
        bulk += shared.bulk_first
        shared.begun(bulk=shared.bulk_first)
    assert bulk == pytest.approx(1000 * share, abs=1)
