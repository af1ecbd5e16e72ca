# SPDX-License-Identifier: Apache-2.0
"""One child process and the pipe to it."""

from __future__ import annotations

import contextlib
import multiprocessing
import queue
import threading
from multiprocessing.sharedctypes import RawArray
from typing import Any

from docparser import worker
from docparser.baton import HolderSlot
from docparser.settings import Settings


class Lost(Exception):
    """The process ended."""


class WorkerProcess:
    """``receive`` belongs to one thread; ``send`` and ``kill`` are for any, and never block."""

    def __init__(self, settings: Settings, name: str) -> None:
        context = multiprocessing.get_context("spawn")
        shared = RawArray("d", 2)
        self.slot = HolderSlot(shared)
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=worker.main, args=(theirs, settings, shared), name=name, daemon=True)
        self._process.start()
        theirs.close()  # or the end of the pipe would not be seen when the process dies
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name=f"{name}-writer", daemon=True)
        self._writer.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: object) -> None:
        self._outbox.put(message)

    def _write(self) -> None:
        """Messages can be larger than the pipe holds, and the service's event loop must not wait for it."""
        with contextlib.suppress(OSError):  # the reader finds the process gone
            while (message := self._outbox.get()) is not None:
                self._connection.send(message)

    def receive(self, timeout_s: float | None = None) -> Any:
        """The next message. Raises TimeoutError; Lost."""
        try:
            if timeout_s is not None and not self._connection.poll(timeout_s):
                raise TimeoutError
            return self._connection.recv()
        except (EOFError, ConnectionError) as exc:
            raise Lost from exc

    def kill(self) -> None:
        """Ends the process at once; whoever waits in ``receive`` gets Lost."""
        self._process.kill()

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._outbox.put(None)
        self._writer.join(timeout=5.0)
        self._connection.close()
