# SPDX-License-Identifier: Apache-2.0
"""The service's end of a worker process: the child, the pipe to it, and which of its tasks has the CPU. Loads no
Paddle."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import mmap
import multiprocessing
import os
import queue
import subprocess
import sys
import threading
import time
from multiprocessing.reduction import ForkingPickler
from typing import Any

from bounded_child import cpu_s, environment
from docparser.sandbox.process import Bounds
from docparser.settings import Settings

MODULE = "docparser.worker.main"


SharedSlot = ctypes.c_double * 3


class HolderSlot:
    """The baton's holder, in shared memory, so that the service sees which page a worker died on.

    ``array`` is shared by both processes: the holder's task number (0: nobody); since when it holds the baton, in
    seconds of the system's monotonic clock; and how many seconds of CPU time the worker had used by then.
    """

    def __init__(self, array: ctypes.Array[ctypes.c_double]) -> None:
        self._array = array

    def set(self, task: int) -> None:
        self._array[1], self._array[2] = time.monotonic(), time.process_time()
        self._array[0] = float(task)

    def clear(self) -> None:
        self._array[0] = 0.0

    @property
    def task(self) -> int:
        return int(self._array[0])

    @property
    def held_s(self) -> float:
        """Seconds since the present holder got the baton; 0 if nobody has it."""
        return time.monotonic() - self._array[1] if self._array[0] else 0.0

    @property
    def cpu_before_s(self) -> float:
        """Seconds of CPU time that the worker had used when the present holder got the baton."""
        return self._array[2]


class ProcessEnded(Exception):
    """The worker process ended, or its pipe broke."""


class WorkerProcess:
    """``receive`` belongs to one thread; any thread may call ``send`` and ``kill``, which never block."""

    def __init__(self, settings: Settings, name: str) -> None:
        """Raises OSError and RuntimeError where the system has no process, no memory or no thread to give."""
        self._connection, theirs = multiprocessing.Pipe()
        with theirs, open(os.memfd_create("baton"), "r+b") as memory:
            memory.truncate(mmap.PAGESIZE)
            self.slot = HolderSlot(SharedSlot.from_buffer(mmap.mmap(memory.fileno(), mmap.PAGESIZE)))
            first = {
                "name": name,
                "cache": str(settings.cache_dir),
                "level": settings.log_level,
                "format": settings.log_format,
                "bounds": dataclasses.asdict(Bounds.of(settings)),
            }
            files = (theirs.fileno(), memory.fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-m", MODULE, *map(str, files), json.dumps(first)],
                stdin=subprocess.DEVNULL,
                env=environment(),
                pass_fds=files,
            )
        self._outbox: queue.SimpleQueue[memoryview | None] = queue.SimpleQueue()
        self.send(settings)  # among them secrets, which neither its environment nor its zygote gets
        self._writer = threading.Thread(target=self._write, name=f"{name}-writer", daemon=True)
        try:
            self._writer.start()
        except RuntimeError:
            self._process.kill()
            self._process.wait()
            raise

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

    @property
    def holder_cpu_s(self) -> float:
        """Seconds of CPU time that the worker has used since the present holder got the baton; 0 once it has ended."""
        try:
            return cpu_s(self._process.pid) - self.slot.cpu_before_s
        except OSError:
            return 0.0

    def kill(self) -> None:
        """End the process at once; ``receive`` then raises ProcessEnded."""
        self._process.kill()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._outbox.put(None)
        self._writer.join(timeout=5.0)
        self._connection.close()
