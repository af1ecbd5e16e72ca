# SPDX-License-Identifier: Apache-2.0
"""The service's end of a worker process: the child and the pipe to it. Loads no Paddle."""

from __future__ import annotations

import contextlib
import multiprocessing
import queue
import threading
from multiprocessing.reduction import ForkingPickler
from multiprocessing.sharedctypes import RawArray
from typing import Any

from docparser.settings import Settings
from docparser.worker import main
from docparser.worker.baton import HolderSlot


class ProcessEnded(Exception):
    """The worker process ended, or its pipe broke."""


class WorkerProcess:
    """``receive`` belongs to one thread; any thread may call ``send`` and ``kill``, which never block."""

    def __init__(self, settings: Settings, name: str) -> None:
        context = multiprocessing.get_context("spawn")
        shared = RawArray("d", 2)
        self.slot = HolderSlot(shared)
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=main.main, args=(theirs, settings, shared), name=name, daemon=True)
        self._process.start()
        theirs.close()  # else the pipe would stay open when the process dies
        self._outbox: queue.SimpleQueue[memoryview | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name=f"{name}-writer", daemon=True)
        self._writer.start()

    @property
    def pid(self) -> int:
        pid = self._process.pid
        assert pid is not None, "__init__ starts the process"
        return pid

    def send(self, message: object) -> None:
        """Raises what pickling raises, RecursionError for instance: the sender's request fails, and no other."""
        self._outbox.put(ForkingPickler.dumps(message))

    def _write(self) -> None:
        """Send in a thread of its own: a message can be larger than the pipe's buffer, and the event loop must not
        wait."""
        with contextlib.suppress(OSError):  # `receive` reports that the process is gone
            while (message := self._outbox.get()) is not None:
                self._connection.send_bytes(message)

    def receive(self, timeout_s: float | None = None) -> Any:
        """The next message. Raises TimeoutError, ProcessEnded."""
        try:
            if timeout_s is not None and not self._connection.poll(timeout_s):
                raise TimeoutError
            return self._connection.recv()
        except (EOFError, ConnectionError) as exc:
            raise ProcessEnded from exc

    def kill(self) -> None:
        """End the process at once; ``receive`` then raises ProcessEnded."""
        self._process.kill()

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._outbox.put(None)
        self._writer.join(timeout=5.0)
        self._connection.close()
