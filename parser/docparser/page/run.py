# SPDX-License-Identifier: Apache-2.0
"""What reads pages, what it gives of one, and one page on its way: how it is read, whether somebody still waits for it,
and what it has cost. Loads no PaddleX.

There are two readers: the layout model with the VLM (``page.loop``), and the VLM alone (``whole_page.reader``). Nothing
behind them asks which it was.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from PIL import Image

from docparser.contract.answers import Note, NotedBlock
from docparser.contract.schemas import ParseOptions, Places
from docparser.layout.served import LayoutServer
from docparser.own_text.page_text import BlockText, OwnText
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
        """Before the VLM is asked. ``exact``: see ``page.answers``; ``width``: of the page, pixels."""

    def answered(self, replies: Replies) -> None:
        """``replies``: those so far."""


class PageRun:
    """Belongs to the page's thread; ``cancel`` may be called from any.

    ``own_text``: what the page says itself, where that is asked for; ``text_layer``: what for. ``child``: its call of
    child processes. ``layout_s``, ``waited_s``: how long the layout took, and the VLM. ``answered``: blocks that have
    been read; ``tokens``: of the VLM's prompts, and of its texts.
    """

    def __init__(
        self,
        request_id: str,
        without_cpu: Callable[[], AbstractContextManager[None]],
        reading: BlockReading = BlockReading(),
        places: Places | None = None,
    ) -> None:
        """``request_id`` goes to the VLM with each call. ``without_cpu()``: while it lasts, this page waits for
        something and others compute. ``places``: of what they are to be found."""
        self.request_id, self.without_cpu = request_id, without_cpu
        self.reading, self.places = reading, places
        self.listener: PageListener | None = None
        self.own_text: OwnText | None = None
        self.text_layer = "off"
        self.child = JobHandle()
        self.layout_s = self.waited_s = 0.0
        self.answered, self.tokens = 0, (0, 0)
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
        if self.cancelled:
            call.cancel()
        return call

    def end_calls(self) -> None:
        """Nobody waits for their replies any more."""
        for call in list(self._calls):
            call.cancel()

    def replies(
        self,
        calls: Mapping[int, Future[Reply]],
        given: Replies = MappingProxyType({}),
        settled: Callable[[int, Reply], Reply] = lambda number, reply: reply,
    ) -> dict[int, Reply]:
        """Wait for all calls; ``given``: replies that need none; ``settled``: a reply as it counts. The first exception
        of a call is raised. Raises PageCancelled."""
        began = time.monotonic()

        def those_so_far() -> dict[int, Reply]:
            there = {number: settled(number, call.result()) for number, call in calls.items() if call.done()}
            return dict(sorted({**there, **given}.items()))

        with self.without_cpu():
            failed = self._wait(calls, those_so_far)
        self.waited_s += time.monotonic() - began
        self.check()
        if failed is not None:
            raise failed
        replies = those_so_far()
        for reply in replies.values():
            self.tokens = (self.tokens[0] + reply.tokens[0], self.tokens[1] + reply.tokens[1])
            self.answered += reply.note is None or reply.note.has_text or bool(reply.text)  # of one of its parts
        return replies

    def _wait(self, calls: Mapping[int, Future[Reply]], those_so_far: Callable[[], Replies]) -> BaseException | None:
        """Until all have ended, or one with an exception, which is returned."""
        until = concurrent.futures.FIRST_EXCEPTION if self.listener is None else concurrent.futures.FIRST_COMPLETED
        waiting = set(calls.values())
        while waiting and not self.cancelled:
            done, waiting = concurrent.futures.wait(waiting, return_when=until)
            for call in done:
                if not call.cancelled() and (error := call.exception()) is not None:
                    return error
            if self.listener is not None and not self.cancelled:
                self.listener.answered(those_so_far())
        return None


@dataclasses.dataclass(frozen=True)
class PageReading:
    """A page that was read. ``frozen`` is the page with its pictures as ``page.frozen`` has it, whose texts are put
    together in a child process. ``page_notes``: see ``page.notes``. ``drawn`` draws the page with what was found on it,
    by the pictures' names. ``spotted_on``: the page that spotted texts are drawn on, where PaddleX draws them.
    """

    frozen: dict[str, Any]
    block_notes: list[NotedBlock]
    page_notes: list[Note]
    drawn: Callable[[], dict[str, Picture]]
    spotted_on: np.ndarray | None = None


class PageReader(Protocol):
    """The caller of a method must have the CPU. ``layout_engine`` is openvino or paddle; empty where there is no layout
    model."""

    vlm: VlmCalls
    layout_engine: str
    layout_server: LayoutServer | None

    def warm_up(self) -> None:
        """What the first page would otherwise wait for."""

    def read(self, page: np.ndarray, options: ParseOptions, run: PageRun) -> PageReading:
        """One page, uint8 ``[height, width, 3]``, blue first. Leaves the CPU to others while the VLM reads. Raises
        VlmUnavailable, PageCancelled."""
