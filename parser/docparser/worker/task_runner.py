# SPDX-License-Identifier: Apache-2.0
"""The tasks of a worker process: how many it takes at a time, and when it asks for the next one.

One page has the CPU while others wait for the VLM. The worker asks the service for a task when it has room for one
(PARSER_PAGES_IN_FLIGHT, PARSER_MAX_PIXELS_IN_FLIGHT); ``parsing/scheduler`` chooses which.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from docparser.errors import InternalError, ParserError
from docparser.logs import request_id
from docparser.settings import Settings
from docparser.worker.baton import Baton
from docparser.worker.messages import (
    Answer,
    CancelTask,
    PagesGoOn,
    ParsePage,
    ReadingEnded,
    ReadingIsSlow,
    Ready,
    RequestTask,
    RunTask,
    ServersState,
)
from docparser.worker.process import HolderSlot

if TYPE_CHECKING:  # it loads PaddleX
    from docparser.worker.page_work import TextChildren

log = logging.getLogger(__name__)

STATE_EVERY_S = 1.0


class TaskRunner:
    """Reads tasks in the main thread; each runs in a thread of its own, and holds the baton while it computes."""

    def __init__(self, connection: Connection, settings: Settings, slot: HolderSlot, children: TextChildren) -> None:
        from docparser.worker.page_work import PageWork  # not at the top: offline.prepare must come first

        self._connection = connection
        self._settings = settings
        self._baton = Baton(slot)
        self._work = PageWork(settings, self._baton, children)
        apart = 4 * max(2, settings.workers)  # the service's bounds on all workers, twice (parsing/fair_queue)
        self._threads = ThreadPoolExecutor(settings.pages_in_flight + 1 + apart, thread_name_prefix="page")
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._running: set[int] = set()
        self._apart: set[int] = set()  # of them, those whose document is read apart
        self._requested = False
        self._last_state: ServersState | None = None

    def run(self) -> None:
        self._send(Ready(self._work.layout_engine))
        threading.Thread(target=self._report, daemon=True).start()
        self._request_task()
        while True:
            try:
                message = self._connection.recv()
            except (EOFError, OSError):
                return
            if isinstance(message, CancelTask):
                self._work.cancel(message.number)
            else:
                with self._lock:
                    self._requested = False
                    self._running.add(message.number)
                    if message.apart:
                        self._apart.add(message.number)
                self._work.expect(message.number)
                self._threads.submit(self._do, message)

    def _do(self, message: RunTask) -> None:
        task = message.task
        request_id.set(task.request_id if isinstance(task, ParsePage) else "")
        try:
            value = self._work.do(message, on_waiting=self._request_task, report=self._report_reading)
        except ParserError as exc:
            value = exc
        except Exception:
            log.exception("%s failed", type(task).__name__)
            value = InternalError(InternalError.on_a_page)
        with self._lock:
            self._running.discard(message.number)
            self._apart.discard(message.number)
        self._send(Answer(message.number, value, self._baton.used_s(message.number)))
        self._baton.forget(message.number)
        self._request_task()

    def _report_reading(self, event: object) -> None:
        with self._lock:
            if isinstance(event, ReadingIsSlow):
                self._apart.add(event.number)
            elif isinstance(event, ReadingEnded):
                self._apart.discard(event.number)
        self._send(event)

    def _request_task(self) -> None:
        """Request a task if the CPU is free, and neither the memory nor the VLM is at its limit."""
        limit = self._work.vlm.limit
        with self._lock:
            if (
                self._requested
                or not self._baton.idle
                or len(self._running) - len(self._apart) >= self._settings.pages_in_flight
                or self._work.pixels >= self._settings.max_pixels_in_flight
                or limit.waiting > limit.limit
            ):
                return
            self._requested = True
        self._send(RequestTask())

    def _report(self) -> None:
        """Send which pages go on, and the state of the VLM calls when it changes; request a task once the VLM has
        caught up."""
        while True:
            time.sleep(STATE_EVERY_S / 4)
            self._request_task()
            if going_on := self._work.take_going_on():
                self._send(PagesGoOn(going_on))
            vlm = self._work.vlm
            limit = vlm.limit
            seen = vlm.presence
            counts: Mapping[str, int] = {}
            away = ""
            if (server := self._work.layout_server) is not None:
                server.look_again()
                counts, away = server.counts, server.away
            state = ServersState(
                limit.in_flight,
                limit.waiting,
                limit.limit,
                seen.last_answer,
                seen.last_loss,
                {**vlm.counts, **counts},
                away,
            )
            if state != self._last_state:
                self._last_state = state
                self._send(state)

    def _send(self, message: object) -> None:
        with self._sending:
            try:
                self._connection.send(message)
            except OSError:
                os._exit(1)  # the service is gone
