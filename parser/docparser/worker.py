# SPDX-License-Identifier: Apache-2.0
"""A worker process: loads the pipeline once, then works on pages, one of which has the CPU while others wait for the VLM.

Documents are opened and pages are decoded here and not in the service's own process, so that a file that crashes a
decoder costs one worker, which is replaced.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

from docparser import offline
from docparser.baton import Baton, HolderSlot
from docparser.errors import InternalError, ParserError
from docparser.logs import configure_logging, request_id
from docparser.settings import Settings
from docparser.tasks import Answer, Do, Forget, ParsePage, Ready, VlmState, Want

log = logging.getLogger(__name__)

STATE_EVERY_S = 1.0
M_ARENA_MAX = -8  # glibc's malloc.h


def main(connection: Connection, settings: Settings, slot) -> None:
    """Entry point of the process. Ends when the other side closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the service ends its workers
    configure_logging(settings.log_level, settings.log_format)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    _few_arenas()
    offline.prepare(settings)
    try:
        worker = Worker(connection, settings, HolderSlot(slot))
    except ParserError as exc:
        connection.send(Answer(0, exc))
        return
    worker.run()
    os._exit(0)  # threads may still be busy with pages that nobody waits for


def _end_with(parent: int) -> None:
    """Ends with the service, even one that was killed: a busy worker would not see the closed pipe for minutes."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _few_arenas() -> None:
    """glibc gives each thread a heap of its own, and never shrinks them: pages in 16 threads would hold 16 pages' memory
    for good."""
    with contextlib.suppress(OSError, AttributeError):  # another C library, which has no such thing
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)


class Worker:
    """Reads tasks in the main thread; each runs in a thread of its own, and holds the baton while it computes."""

    def __init__(self, connection: Connection, settings: Settings, slot: HolderSlot) -> None:
        from docparser.page_work import PageWork  # not at the top: offline.prepare must come first

        self._connection = connection
        self._settings = settings
        self._baton = Baton(slot)
        self._work = PageWork(settings, self._baton)
        self._threads = ThreadPoolExecutor(settings.pages_in_flight + 1, thread_name_prefix="page")
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._running: set[int] = set()
        self._wanting = False
        self._last_state: VlmState | None = None

    def run(self) -> None:
        self._send(Ready())
        threading.Thread(target=self._report, daemon=True).start()
        self._want_more()
        while True:
            try:
                message = self._connection.recv()
            except (EOFError, OSError):
                return
            if isinstance(message, Forget):
                self._work.cancel(message.number)
            else:
                with self._lock:
                    self._wanting = False
                    self._running.add(message.number)
                self._threads.submit(self._do, message)

    def _do(self, message: Do) -> None:
        task = message.task
        request_id.set(task.request_id if isinstance(task, ParsePage) else "")
        try:
            value = self._work.do(message.number, task, on_waiting=self._want_more)
        except ParserError as exc:
            value = exc
        except Exception:
            log.exception("%s failed", type(task).__name__)
            value = InternalError("The parser failed on this page; the operator finds the details in its log.")
        with self._lock:
            self._running.discard(message.number)
        self._send(Answer(message.number, value))
        self._want_more()

    def _want_more(self) -> None:
        """Asks for a task if the CPU is free, and neither memory nor the VLM is behind."""
        limit = self._work.vlm.limit
        with self._lock:
            if (
                self._wanting
                or not self._baton.idle
                or len(self._running) >= self._settings.pages_in_flight
                or self._work.pixels >= self._settings.max_pixels_in_flight
                or limit.waiting > max(limit.limit, 32)
            ):
                return
            self._wanting = True
        self._send(Want())

    def _report(self) -> None:
        """Tells how the VLM calls fare; and looks now and then whether the VLM has caught up."""
        while True:
            time.sleep(STATE_EVERY_S / 4)
            self._want_more()
            vlm = self._work.vlm
            limit = vlm.limit
            state = VlmState(limit.in_flight, limit.waiting, limit.limit, vlm.last_answer, dict(vlm.counts))
            if state != self._last_state:
                self._last_state = state
                self._send(state)

    def _send(self, message: object) -> None:
        with self._sending:
            try:
                self._connection.send(message)
            except OSError:
                os._exit(1)  # the service is gone
