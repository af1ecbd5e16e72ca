# SPDX-License-Identifier: Apache-2.0
"""The pipeline's client of the VLM: PaddleX's interface in front of our client.

PaddleX's own client (paddlex 3.7.2, ``inference/models/common/genai.py``) waits up to 600 s for each crop, follows
proxy variables, and any failed crop cancels all others of the page. ``BlockClient`` has the same interface and takes
its place in the recognition model (``worker/pipeline.py``). It can go when PaddleX reports failed crops one by one and
lets pages overlap.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import re
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from types import SimpleNamespace
from typing import Any, Protocol

from docparser.sandbox.pool import Call
from docparser.small_print import bands, cells, second_look
from docparser.small_print.bands import Band
from docparser.vlm.client import Reply, VlmClient
from docparser.vlm.repetition import BAND, TABLE, TEXT, Guard
from docparser.worker.baton import FINISHING, Baton

# A text carries the number of what is told of it through the pipeline; private-use characters, and short enough that
# no post-processing touches it.
MARK_BEGINS, MARK_ENDS = "\ue000", "\ue001"
MARK = re.compile(f"{MARK_BEGINS}(\\d+){MARK_ENDS}")
TEXT_PROMPT, TABLE_PROMPT = "OCR:", "Table Recognition:"
Join = Callable[[list[str]], str]  # of the texts of a block's parts


class Cancelled(Exception):
    """Nobody waits for this page any more."""


class Progress(Protocol):
    """Is told of a page's answers while there are more to come."""

    def answered(self, replies: list[Reply | None]) -> None:
        """``replies`` in the order of the calls, None for those that are not there yet."""


class PageCalls:
    """The VLM calls of one page. The page's thread starts them, and waits for them without the baton."""

    def __init__(
        self, task: int, request_id: str, baton: Baton, on_waiting: Callable[[], None], bands: bool = False
    ) -> None:
        """``bands``: blocks of text are read in bands of a few lines, and tables by their cells."""
        self.task, self.request_id, self.bands = task, request_id, bands
        self.layout_s = 0.0
        self.told: list[Reply] = []  # by the numbers in the texts' marks
        self.answered = 0
        self.tokens = (0, 0)  # of the VLM: of prompts, and of texts
        self.waited_s = 0.0
        self._baton, self._on_waiting = baton, on_waiting
        self.child = Call()  # of the child process that reads the answers
        self.early: Progress | None = None  # of a page that is streamed
        self._futures: list[concurrent.futures.Future] = []
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Cancel the running calls; the page then ends with Cancelled. May be called from any thread."""
        self._cancelled.set()
        self.child.cancel()
        self.end()

    def end(self) -> None:
        """Cancel the running calls."""
        for future in list(self._futures):
            future.cancel()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def check(self) -> None:
        if self.cancelled:
            raise Cancelled

    def add(self, future: concurrent.futures.Future) -> int:
        self._futures.append(future)
        if self._cancelled.is_set():
            future.cancel()
        return len(self._futures)

    def wait(self) -> None:
        """Wait until all calls so far have ended. The first exception of a call cancels the others, and is raised."""
        waiting = [future for future in self._futures if not future.done()]
        if not waiting:
            return
        began = time.monotonic()
        with self.without_baton():
            if self.early is None:
                concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_EXCEPTION)
            else:
                self._tell(self.early, waiting)
        self.waited_s += time.monotonic() - began
        self.check()
        for future in waiting:  # when one has failed, others are still running
            if future.done() and not future.cancelled() and (error := future.exception()):
                self.end()
                raise error

    def _tell(self, early: Progress, waiting: list[concurrent.futures.Future]) -> None:
        """Wait as ``wait`` does, and tell ``early`` of the answers so far whenever there are more."""
        left = set(waiting)
        while left:
            done, left = concurrent.futures.wait(left, return_when=concurrent.futures.FIRST_COMPLETED)
            if any(future.cancelled() or future.exception() for future in done):
                return
            early.answered([_reply_of(future) for future in self._futures])

    @contextlib.contextmanager
    def without_baton(self) -> Iterator[None]:
        """Give the baton away, to wait for something."""
        self._baton.give()
        try:
            self._on_waiting()
            yield
        finally:
            self._baton.take(self.task, FINISHING)

    def count(self, reply: Reply) -> None:
        """Add the reply to what the page's report counts."""
        self.tokens = (self.tokens[0] + reply.tokens[0], self.tokens[1] + reply.tokens[1])
        self.answered += reply.note is None or reply.note.has_text or bool(reply.text)  # of one of its parts

    def text_of(self, reply: Reply) -> str:
        """The reply's text with a mark, which later tells its block."""
        self.count(reply)
        self.told.append(dataclasses.replace(reply, text=""))
        return f"{reply.text}{MARK_BEGINS}{len(self.told) - 1}{MARK_ENDS}"


def _reply_of(future: concurrent.futures.Future) -> Reply | None:
    """None for a call that is not answered."""
    return None if not future.done() or future.cancelled() or future.exception() else future.result()


class _Pending:
    """The object that PaddleX uses as the future of a call."""

    def __init__(self, calls: PageCalls, future: concurrent.futures.Future) -> None:
        self._calls, self._future = calls, future

    def reply(self) -> Reply:
        self._calls.wait()
        try:
            return self._future.result()
        except concurrent.futures.CancelledError:
            raise Cancelled from None

    def result(self) -> SimpleNamespace:
        text = self._calls.text_of(self.reply())
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=text))])

    def done(self) -> bool:
        return self._future.done()

    def cancel(self) -> bool:
        return self._future.cancel()


class BlockClient:
    """Replaces paddlex's GenAIClient. Calls run on an event loop in a thread of their own."""

    backend = "vllm-server"

    def __init__(self, client: VlmClient, model: str) -> None:
        self.vlm = client
        self._model = model
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vlm-calls", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(client.open(), self._loop).result()
        self._page = threading.local()

    @contextlib.contextmanager
    def page(self, calls: PageCalls) -> Iterator[None]:
        """Calls from this thread belong to this page."""
        self._page.calls = calls
        try:
            yield
        finally:
            self._page.calls = None
            calls.end()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """This thread's page waits for something, without the baton. Raises Cancelled at the end."""
        calls = getattr(self._page, "calls", None)
        if calls is None:
            yield
            return
        with calls.without_baton():
            yield
        calls.check()

    @property
    def early(self) -> Progress | None:
        """Who is told of the answers of this thread's page, if anybody."""
        calls: PageCalls | None = getattr(self._page, "calls", None)
        return None if calls is None else calls.early

    def note_layout(self, seconds: float) -> None:
        """Record the time of the layout detection of this thread's page."""
        calls = getattr(self._page, "calls", None)
        if calls is not None:
            calls.layout_s += seconds

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self.vlm.close(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def create_chat_completion(
        self, messages: list[dict], *, return_future: bool, timeout: float, **kwargs: Any
    ) -> _Pending:
        """Start a call and return its future. paddlex's ``timeout`` is ignored; PARSER_VLM_TIMEOUT_S applies."""
        if not return_future:
            raise NotImplementedError("PaddleX 3.7.2 asks for futures only")
        prompt = next((part["text"] for part in messages[0]["content"] if "text" in part), "")
        body = {"messages": messages, **kwargs.pop("extra_body", {}), **kwargs}
        if self._page.calls.bands and prompt == TEXT_PROMPT:
            return self._start(lambda name: self._read_bands(bands.questions(body), name))
        if self._page.calls.bands and prompt == TABLE_PROMPT and (table := cells.find(body, TEXT_PROMPT)) is not None:
            return self._ask(table.questions, TEXT, table.otsl)
        return self._ask([body], TABLE if prompt == TABLE_PROMPT else TEXT)

    def read(self, body: dict[str, Any], guard: Guard) -> Reply:
        """The answer to the one question of this thread's page. Raises VlmUnavailable, Cancelled."""
        reply = self._ask([body], guard).reply()
        self._page.calls.count(reply)
        return reply

    def _ask(self, bodies: list[dict[str, Any]], guard: Guard, join: Join = bands.joined) -> _Pending:
        """One block, whose picture is that of one request or in parts of several."""
        return self._start(lambda name: self._read(bodies, name, guard, join))

    def _start(self, call: Callable[[str], Coroutine[Any, Any, Reply]]) -> _Pending:
        calls: PageCalls = self._page.calls
        future = asyncio.run_coroutine_threadsafe(call(f"{calls.request_id}-b{len(calls._futures)}"), self._loop)
        calls.add(future)
        return _Pending(calls, future)

    async def _read(self, bodies: list[dict[str, Any]], request_id: str, guard: Guard, join: Join) -> Reply:
        if len(bodies) == 1 and join is bands.joined:
            return await self.vlm.read_block({"model": self._model, **bodies[0]}, request_id, guard)
        return _one(await self._replies(bodies, request_id, guard), join)

    async def _read_bands(self, asked: list[Band], request_id: str) -> Reply:
        """A block of text in bands. Bands whose text does not fit their print are asked again, line by line."""
        replies = await self._replies([band.request for band in asked], request_id, BAND)
        for number in second_look.doubtful(asked, replies):
            lines = await self._replies(asked[number].by_line(), f"{request_id}-{number}-again", BAND)
            replies[number] = second_look.better(replies[number], _one(lines), asked[number])
        return replies[0] if len(replies) == 1 else _one(replies)

    async def _replies(self, bodies: list[dict[str, Any]], request_id: str, guard: Guard) -> list[Reply]:
        calls = [
            self.vlm.read_block({"model": self._model, **body}, f"{request_id}-{number}", guard)
            for number, body in enumerate(bodies)
        ]
        return list(await asyncio.gather(*calls))


def _one(replies: list[Reply], join: Join = bands.joined) -> Reply:
    """The reply to a block of those to its parts; it is no surer than they are together, letter by letter."""
    known = [(reply.confidence, len(reply.text)) for reply in replies if reply.confidence is not None and reply.text]
    length = sum(letters for _, letters in known)
    said = any(reply.note is None or reply.note.has_text for reply in replies)
    return Reply(
        join([reply.text for reply in replies]) if said else "",
        next((reply.note for reply in replies if reply.note is not None), None),
        (sum(reply.tokens[0] for reply in replies), sum(reply.tokens[1] for reply in replies)),
        sum(confidence * letters for confidence, letters in known) / length if length else None,
    )
