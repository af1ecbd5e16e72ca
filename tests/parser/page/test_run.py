# SPDX-License-Identifier: Apache-2.0
"""The calls of one page: who waits for them, what ends them, who is told of them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from typing import cast

import pytest

from docparser.errors import VlmUnavailable
from docparser.page.provenance import PAGE, Origin
from docparser.page.question import VlmCalls
from docparser.page.run import PageCancelled, PageRun, Replies, Settled
from docparser.vlm.client import Reply, VlmClient
from docparser.vlm.failures import BlockNote
from docparser.vlm.repetition import TEXT

FAILED = Reply("", BlockNote("failed", "it failed"), (3, 0))


class Cpu:
    """Who has it, as the page says."""

    def __init__(self) -> None:
        self.held = True
        self.waits = 0

    @contextlib.contextmanager
    def without(self) -> Iterator[None]:
        self.held, self.waits = False, self.waits + 1
        try:
            yield
        finally:
            self.held = True


class Listener:
    def __init__(self) -> None:
        self.told: list[dict[int, str]] = []

    def laid_out(self, *what: object) -> None:
        """The tests have no layout."""

    def answered(self, replies: Replies) -> None:
        self.told.append({number: reply.text for number, reply in replies.items()})


def running(run: PageRun, *numbers: int) -> dict[int, Future[Reply]]:
    calls = {number: run.calling(Future[Reply]()) for number in numbers}
    for call in calls.values():
        call.set_running_or_notify_cancel()
    return calls


def test_a_page_goes_on_with_each_block_that_is_read():
    told: list[str] = []
    run = PageRun(Cpu().without, lambda: told.append("goes on"))
    calls = running(run, 1, 2, 3, 4)
    calls[1].set_result(Reply("", BlockNote("timeout", "no answer")))
    calls[2].set_exception(VlmUnavailable("away"))
    run.calling(Future[Reply]()).cancel()
    assert told == [], "a VLM that hangs on every block must not keep the page"
    calls[3].set_result(Reply(""))
    calls[4].set_result(Reply("cut", BlockNote("length", "cut")))
    assert told == ["goes on"] * 2


def test_replies_come_by_the_numbers_of_their_blocks():
    cpu = Cpu()
    run = PageRun(cpu.without)
    calls = running(run, 7, 2)
    calls[2].set_result(Reply("two", None, (5, 4)))
    calls[7].set_result(FAILED)
    found = run.replies(calls)
    assert found.replies == {7: FAILED, 2: Reply("two", None, (5, 4))} and list(found.settled) == [2, 7]
    assert (found.answered, found.tokens, cpu.waits, cpu.held) == (1, (8, 4), 1, True)


def test_a_listener_is_told_whenever_there_is_more():
    run, listener = PageRun(contextlib.nullcontext), Listener()
    run.listener = listener
    calls = running(run, 0, 1, 2)
    turn = threading.Event()

    def answer() -> None:
        for number in (1, 0, 2):
            calls[number].set_result(Reply(f"text {number}"))
            if not turn.wait(10):
                return
            turn.clear()

    told = listener.answered

    def answered(replies: Replies) -> None:
        told(replies)
        turn.set()

    listener.answered = answered  # type: ignore[method-assign]  # of an object of this test
    thread = threading.Thread(target=answer)
    thread.start()
    replies = run.replies(calls)
    thread.join(10)
    assert [sorted(numbers) for numbers in listener.told] == [[1], [0, 1], [0, 1, 2]] and len(replies.settled) == 3


@pytest.mark.parametrize("listens", [False, True])
def test_what_needs_no_call_is_there_with_the_others_as_they_count(listens: bool):
    run, listener = PageRun(contextlib.nullcontext), Listener()
    run.listener = listener if listens else None
    calls = running(run, 2)
    calls[2].set_result(Reply("tw0"))
    settled: list[tuple[int, str]] = []

    def settle(number: int, reply: Reply) -> Settled:
        settled.append((number, reply.text))
        return Settled(Reply("two"), Origin(PAGE))

    found = run.replies(calls, {1: Settled(Reply("one"))}, settle)
    assert found.settled == {1: Settled(Reply("one")), 2: Settled(Reply("two"), Origin(PAGE))} and found.answered == 2
    assert settled == [(2, "tw0")], "once"
    assert listener.told == [{1: "one", 2: "two"}] * listens


@pytest.mark.parametrize("listens", [False, True])
def test_the_first_exception_is_raised_while_others_run(listens: bool):
    run = PageRun(contextlib.nullcontext)
    run.listener = Listener() if listens else None
    calls = running(run, 0, 1)
    calls[1].set_exception(VlmUnavailable("away"))
    with pytest.raises(VlmUnavailable, match="away"):
        run.replies(calls)
    assert not calls[0].done()


def test_calls_end_with_the_page():
    run = PageRun(contextlib.nullcontext)
    before, after = Future[Reply](), Future[Reply]()
    assert run.calling(before) is before and not before.cancelled()
    run.cancel()
    assert run.calling(after) is after and before.cancelled() and after.cancelled() and run.cancelled


class SilentVlm:
    """Never answers."""

    async def open(self) -> None:
        self.ended = threading.Event()

    async def read_block(self, *question: object) -> Reply:
        try:
            await asyncio.sleep(60)
        finally:
            self.ended.set()
        return Reply("too late")


@pytest.mark.parametrize("listens", [False, True])
def test_a_page_that_nobody_waits_for_ends(listens: bool):
    cpu, silent = Cpu(), SilentVlm()
    calls = VlmCalls(cast(VlmClient, silent), "model")
    run = PageRun(cpu.without)
    run.listener = Listener() if listens else None
    waiting = {0: run.calling(calls.start("page-b0", lambda block: block.one({}, TEXT)))}
    threading.Timer(0.05, run.cancel).start()
    with pytest.raises(PageCancelled):
        run.replies(waiting)
    assert silent.ended.wait(10), "the call has ended, too"
    assert cpu.held and run.child.cancelled
    late = run.calling(calls.start("page-b1", lambda block: block.one({}, TEXT)))
    with pytest.raises(CancelledError):
        late.result(10)
