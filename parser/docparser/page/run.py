# SPDX-License-Identifier: Apache-2.0
"""What reads pages, what it gets and gives of one, and one page on its way: whether somebody still waits for it, and
its calls of the VLM. Loads no PaddleX.

There are two readers: the layout model with the VLM (``page.loop``), and the VLM alone (``whole_page``). Nothing
behind them asks which it was.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from PIL import Image

from docparser.contract.answers import Note, NotedBlock
from docparser.contract.schemas import ParseOptions
from docparser.layout.served import LayoutServer
from docparser.own_text.page_text import BlockText, OwnText
from docparser.page.alignment import Alignment
from docparser.page.provenance import Origin
from docparser.page.question import Question, ReadBlock, VlmCalls, read_block
from docparser.sandbox.pool import JobHandle
from docparser.vlm.client import Reply

if TYPE_CHECKING:  # it loads PaddleX
    from docparser.page.blocks import Blocks

Replies = Mapping[int, Reply]  # by the numbers of the blocks
# Of a table's question, where its picture begins on the page, and what the page says there and in boxes: the table in
# OTSL; None where its cells cannot be told.
OwnTable = Callable[[Question, tuple[int, int], BlockText, Callable[..., list[BlockText]]], str | None]
Picture = Image.Image | np.ndarray  # uint8 [height, width, 3], blue first


@dataclasses.dataclass(frozen=True)
class BlockReading:
    """How the blocks of a page are read. ``block``: one of them by the VLM. ``label``: the boxes of a page so many
    pixels high, with labels that the layout model should have given. ``own_table``: makes a table of the page's own
    text. The usual way; ``small_print`` has another."""

    block: ReadBlock = read_block
    label: Callable[[list[dict[str, Any]], int], list[dict[str, Any]]] = lambda boxes, height: boxes
    own_table: OwnTable | None = None


class PageCancelled(Exception):
    """Nobody waits for this page any more."""


class PageListener(Protocol):
    """Is told of a page while it is read."""

    def laid_out(self, blocks: Blocks, exact: frozenset[int], settings: dict[str, Any], width: int) -> None:
        """Before the VLM is asked. ``exact``: see ``page.blocks``; ``width``: of the page, pixels."""

    def answered(self, replies: Replies) -> None:
        """``replies``: those so far."""


@dataclasses.dataclass(frozen=True)
class PageTask:
    """A page as its reader gets it. ``picture``: uint8 ``[height, width, 3]``, blue first. ``own_text``: what the page
    says itself; None where nobody asked for it, and where it says nothing. ``request_id`` goes to the VLM with each
    call."""

    picture: np.ndarray
    options: ParseOptions
    reading: BlockReading = BlockReading()
    own_text: OwnText | None = None
    request_id: str = ""


@dataclasses.dataclass(frozen=True)
class Settled:
    """A reply as it counts. ``origin``: whose its text is, where the page has a text of its own; ``difference``: of the
    two, where it is to be noted."""

    reply: Reply
    origin: Origin | None = None
    difference: Alignment | None = None


@dataclasses.dataclass(frozen=True)
class Replied:
    """``settled``: the replies by the numbers of the blocks, in order. ``waited_s``: how long the VLM took."""

    settled: dict[int, Settled]
    waited_s: float

    @property
    def replies(self) -> dict[int, Reply]:
        return {number: one.reply for number, one in self.settled.items()}

    @property
    def answered(self) -> int:
        """Blocks that have been read, be it one of their parts."""
        return sum(reply.answered for reply in self.replies.values())

    @property
    def tokens(self) -> tuple[int, int]:
        """Of the VLM's prompts, and of its texts."""
        counts = [reply.tokens for reply in self.replies.values()]
        return sum(prompts for prompts, _ in counts), sum(texts for _, texts in counts)


class PageRun:
    """Belongs to the page's thread; ``cancel`` may be called from any. ``child``: its call of child processes."""

    def __init__(
        self,
        without_cpu: Callable[[], AbstractContextManager[None]] = nullcontext,
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        """``without_cpu()``: while it lasts, this page waits for something and others compute. ``on_answer`` is called
        in any thread whenever the VLM has answered for a block."""
        self.without_cpu = without_cpu
        self._on_answer = on_answer
        self.listener: PageListener | None = None
        self.child = JobHandle()
        self._calls: list[Future[Reply]] = []
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """The page then ends with PageCancelled."""
        self._cancelled.set()
        self.child.cancel()
        self.end_calls()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def check(self) -> None:
        """Raises PageCancelled."""
        if self.cancelled:
            raise PageCancelled

    def calling(self, call: Future[Reply]) -> Future[Reply]:
        """``call`` ends when this page is cancelled."""
        self._calls.append(call)
        call.add_done_callback(self._ended)
        if self.cancelled:
            call.cancel()
        return call

    def _ended(self, call: Future[Reply]) -> None:
        if not call.cancelled() and call.exception() is None and call.result().answered:
            self._on_answer()

    def end_calls(self) -> None:
        """Nobody waits for their replies any more."""
        for call in list(self._calls):
            call.cancel()

    def replies(
        self,
        calls: Mapping[int, Future[Reply]],
        given: Mapping[int, Settled] = MappingProxyType({}),
        settle: Callable[[int, Reply], Settled] = lambda number, reply: Settled(reply),
    ) -> Replied:
        """Wait for all calls; ``given``: what needs none; ``settle``: a block's reply as it counts. The first exception
        of a call is raised. Raises PageCancelled."""
        began, settled = time.monotonic(), dict(given)

        def settle_ended() -> None:
            for number, call in calls.items():
                if number not in settled and call.done():
                    settled[number] = settle(number, call.result())

        def tell(listener: PageListener) -> None:
            settle_ended()
            listener.answered({number: settled[number].reply for number in sorted(settled)})

        with self.without_cpu():
            failed = self._wait(calls.values(), tell)
        waited_s = time.monotonic() - began
        self.check()
        if failed is not None:
            raise failed
        settle_ended()
        return Replied(dict(sorted(settled.items())), waited_s)

    def _wait(self, calls: Iterable[Future[Reply]], tell: Callable[[PageListener], None]) -> BaseException | None:
        """Until all have ended, or one with an exception, which is returned."""
        until = concurrent.futures.FIRST_EXCEPTION if self.listener is None else concurrent.futures.FIRST_COMPLETED
        waiting = set(calls)
        while waiting and not self.cancelled:
            done, waiting = concurrent.futures.wait(waiting, return_when=until)
            for call in done:
                if not call.cancelled() and (error := call.exception()) is not None:
                    return error
            if self.listener is not None and not self.cancelled:
                tell(self.listener)
        return None


@dataclasses.dataclass(frozen=True)
class PageReading:
    """A page that was read. ``frozen`` is the page with its pictures as ``page.frozen`` has it, whose texts are put
    together in a child process. ``page_notes``: see ``page.notes``. ``drawn`` draws the page with what was found on it,
    by the pictures' names. ``spotted_on``: the page that spotted texts are drawn on, where PaddleX draws them.
    ``layout_s``, ``waited_s``: how long the layout took, and the VLM. ``answered``, ``tokens``: see Replied.
    """

    frozen: dict[str, Any]
    block_notes: list[NotedBlock]
    page_notes: list[Note]
    drawn: Callable[[], dict[str, Picture]]
    answered: int
    tokens: tuple[int, int]
    waited_s: float
    layout_s: float = 0.0
    spotted_on: np.ndarray | None = None


class PageReader(Protocol):
    """The caller of a method must have the CPU. ``layout_engine`` is openvino or paddle; empty where there is no layout
    model."""

    vlm: VlmCalls
    layout_engine: str
    layout_server: LayoutServer | None

    def warm_up(self) -> None:
        """What the first page would otherwise wait for."""

    def read(self, task: PageTask, run: PageRun) -> PageReading:
        """One page. Leaves the CPU to others while the VLM reads. Raises VlmUnavailable, PageCancelled."""
