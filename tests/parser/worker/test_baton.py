# SPDX-License-Identifier: Apache-2.0
"""Who has a worker's CPU: pages that return go first, and a document that is read apart does not hold it."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace

import pytest

from bounded_child import cpu_s
from docparser.documents.reader import Reading
from docparser.worker import baton as baton_module
from docparser.worker.baton import FINISHING, STARTING, Baton, Hold
from docparser.worker.messages import JoinPages, ReadingEnded, ReadingIsSlow, RunTask
from docparser.worker.process import HolderSlot, SharedSlot
from tests.support.wait import wait_for


@pytest.fixture
def slot() -> HolderSlot:
    return HolderSlot(SharedSlot())


def test_the_slot_says_how_much_cpu_time_was_used_before(slot: HolderSlot):
    slot.set(7)
    assert slot.cpu_before_s > 0 and abs(cpu_s(os.getpid()) - slot.cpu_before_s) < 1


class Seen(Baton):
    """With the priorities by which it was taken."""

    def __init__(self, slot: HolderSlot) -> None:
        super().__init__(slot)
        self.taken: list[int] = []

    def take(self, task: int, priority: int) -> None:
        self.taken.append(priority)
        super().take(task, priority)


@pytest.fixture
def baton(slot: HolderSlot) -> Seen:
    return Seen(slot)


def test_pages_that_return_go_first_then_who_came_first(baton: Baton, slot: HolderSlot):
    turns: list[tuple[int, int]] = []

    def wait(task: int, priority: int) -> None:
        baton.take(task, priority)
        turns.append((task, slot.task))
        baton.give()

    baton.take(9, STARTING)
    waiting = [(1, STARTING), (2, STARTING), (3, FINISHING), (4, FINISHING)]
    threads = []
    for turn in waiting:
        threads.append(threading.Thread(target=wait, args=turn))
        threads[-1].start()
        wait_for(lambda: len(baton._queue) == len(threads))
    assert turns == [] and not baton.idle
    baton.give()
    for thread in threads:
        thread.join(10)
    assert turns == [(3, 3), (4, 4), (1, 1), (2, 2)]
    assert baton.idle and slot.task == 0


def test_what_a_task_has_used_is_what_it_held(baton: Baton, monkeypatch: pytest.MonkeyPatch):
    now = [100.0]
    monkeypatch.setattr(baton_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    for task, seconds in ((1, 2.0), (2, 5.0), (1, 0.5)):
        baton.take(task, STARTING)
        assert not baton.idle
        now[0] += seconds
        baton.give()
        now[0] += 50.0
    assert (baton.used_s(1), baton.used_s(2), baton.used_s(3)) == (2.5, 5.0, 0.0)
    baton.forget(1)
    baton.forget(3)
    assert (baton.used_s(1), baton.used_s(2)) == (0.0, 5.0)


class Page:
    """A task with its hold, and what it told."""

    def __init__(self, baton: Baton, slot: HolderSlot, *, apart: bool) -> None:
        self.slot = slot
        self.told: list[object] = []
        run = RunTask(7, JoinPages({}, None), apart)  # type: ignore[arg-type]  # nobody looks at the task
        self.hold = Hold(baton, run, lambda: self.told.append(("free", slot.task)), self.told.append)

    def slow(self, reading: Reading) -> str:
        """A reading that finds out that it is slow."""
        assert (reading.apart, self.slot.task) == (False, 7)
        reading.on_slow()
        assert self.slot.task == 0
        return "pixels"

    def quick(self, reading: Reading) -> str:
        self.told.append((reading.apart, self.slot.task, reading.cancelled()))
        return "pixels"


def test_a_page_holds_it_while_its_document_is_read(baton: Seen, slot: HolderSlot):
    page = Page(baton, slot, apart=False)
    with page.hold as hold:
        assert hold.read(page.quick, lambda: True) == "pixels" and slot.task == 7
        with hold.lent():
            assert slot.task == 0
        assert slot.task == 7
    assert slot.task == 0 and baton.idle and baton.taken == [STARTING, FINISHING]
    assert page.told == [(False, 7, True), ("free", 0)]


def test_a_slow_document_gives_it_away_and_gets_it_back(baton: Seen, slot: HolderSlot):
    page = Page(baton, slot, apart=False)
    with page.hold as hold:
        assert hold.read(page.slow, lambda: False) == "pixels" and slot.task == 7
        used = baton.used_s(7)
    assert baton.idle and baton.taken == [STARTING, FINISHING]
    assert page.told == [ReadingIsSlow(7, used), ("free", 0), ReadingEnded(7)] and used > 0


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_read_apart_takes_it_afterwards(baton: Seen, slot: HolderSlot, fails: bool):
    page = Page(baton, slot, apart=True)

    def read(reading: Reading) -> str:
        page.quick(reading)
        return str(1 // (not fails))

    try:
        with page.hold as hold:
            assert slot.task == 0
            assert hold.read(read, lambda: False) == "1" and slot.task == 7
    except ZeroDivisionError:
        assert fails
    assert slot.task == 0 and baton.idle and baton.taken == [FINISHING] * (not fails)
    assert page.told == [("free", 0), (True, 0, False), ReadingEnded(7)]
