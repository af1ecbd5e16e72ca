# SPDX-License-Identifier: Apache-2.0
"""The pipeline's way to the VLM: PaddleX's client interface, in front of ours.

PaddleX's own client (paddlex 3.7.2, ``inference/models/common/genai.py``) waits up to 600 s for each crop, follows
proxy variables, and any failed crop cancels all others of the page. ``BlockClient`` has the same interface and takes
its place in the recognition model (``pipeline.py``). It can go when PaddleX reports failed crops one by one and lets
pages overlap.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import re
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from docparser.baton import FINISHING, Baton
from docparser.vlm_client import BlockNote, Reply, VlmClient

# A failed block's text carries the number of its note through the pipeline; private-use characters, and short
# enough that no post-processing touches it.
NOTE_MARK = re.compile("\ue000(\\d+)\ue001")
TABLE_PROMPT = "Table Recognition:"


class Cancelled(Exception):
    """Nobody waits for this page any more."""


class PageCalls:
    """The VLM calls of one page: begun from the page's thread, which then waits for them without the baton."""

    def __init__(self, task: int, request_id: str, baton: Baton, on_waiting: Callable[[], None]) -> None:
        self.task, self.request_id = task, request_id
        self.layout_s = 0.0
        self.notes: list[BlockNote] = []
        self.answered = 0
        self.waited_s = 0.0
        self._baton, self._on_waiting = baton, on_waiting
        self._futures: list[concurrent.futures.Future] = []
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """From any thread: the calls that are under way are given up, and the page ends with Cancelled."""
        self._cancelled.set()
        self.end()

    def end(self) -> None:
        """Gives up the calls that are under way, if any are."""
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
        """Until all calls so far have ended. The first that raises ends the others, and is raised."""
        waiting = [future for future in self._futures if not future.done()]
        if not waiting:
            return
        began = time.monotonic()
        self._baton.give()
        try:
            self._on_waiting()
            concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_EXCEPTION)
        finally:
            self._baton.take(self.task, FINISHING)
        self.waited_s += time.monotonic() - began
        self.check()
        for future in waiting:  # one that failed leaves others that are still under way
            if future.done() and not future.cancelled() and (trouble := future.exception()):
                self.end()
                raise trouble

    def text_of(self, reply: Reply) -> str:
        """The reply's text; where it has a note, with the note's mark, so that the note finds its block."""
        if reply.note is None:
            self.answered += 1
            return reply.text
        self.notes.append(reply.note)
        self.answered += reply.note.has_text
        return f"{reply.text}\ue000{len(self.notes) - 1}\ue001"


class _Pending:
    """What PaddleX takes for the future of a call."""

    def __init__(self, calls: PageCalls, future: concurrent.futures.Future) -> None:
        self._calls, self._future = calls, future

    def result(self) -> SimpleNamespace:
        self._calls.wait()
        try:
            text = self._calls.text_of(self._future.result())
        except concurrent.futures.CancelledError:
            raise Cancelled from None
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=text))])

    def done(self) -> bool:
        return self._future.done()

    def cancel(self) -> bool:
        return self._future.cancel()


class BlockClient:
    """Stands in for paddlex's GenAIClient. Calls run on an event loop in a thread of their own."""

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
    def page(self, calls: PageCalls):
        """Calls from this thread belong to this page."""
        self._page.calls = calls
        try:
            yield
        finally:
            self._page.calls = None
            calls.end()

    def note_layout(self, seconds: float) -> None:
        """How long finding the layout of this thread's page took."""
        calls = getattr(self._page, "calls", None)
        if calls is not None:
            calls.layout_s += seconds

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self.vlm.close(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def create_chat_completion(self, messages: list[dict], *, return_future: bool, timeout: float, **kwargs: Any):
        """``timeout`` is paddlex's own and is replaced by the operator's; so is what it does with a future."""
        if not return_future:
            raise NotImplementedError("PaddleX 3.7.2 asks for futures only")
        calls: PageCalls = self._page.calls
        body = {"model": self._model, "messages": messages, **kwargs.pop("extra_body", {}), **kwargs}
        is_table = any(part.get("text") == TABLE_PROMPT for part in messages[0]["content"])
        call = self.vlm.read_block(body, f"{calls.request_id}-b{len(calls._futures)}", is_table=is_table)
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        calls.add(future)
        return _Pending(calls, future)
