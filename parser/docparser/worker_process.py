# SPDX-License-Identifier: Apache-2.0
"""One child process and the pipe to it."""

from __future__ import annotations

import multiprocessing
from typing import Any

from docparser import worker
from docparser.settings import Settings
from docparser.tasks import Task


class Lost(Exception):
    """The process ended, or will not answer any more."""


class WorkerProcess:
    """Used by one thread, except ``kill``."""

    def __init__(self, settings: Settings, name: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=worker.main, args=(theirs, settings), name=name, daemon=True)
        self._process.start()
        theirs.close()  # or the end of the pipe would not be seen when the process dies

    def send(self, task: Task) -> None:
        """Raises Lost."""
        try:
            self._connection.send(task)
        except OSError as exc:
            raise Lost from exc

    def receive(self, timeout_s: float) -> Any:
        """The next answer's value. Raises ParserError as the worker did; TimeoutError; Lost."""
        try:
            answered = self._connection.poll(timeout_s)
            good, value = self._connection.recv() if answered else (False, TimeoutError())
        except (EOFError, OSError) as exc:
            raise Lost from exc
        if good:
            return value
        raise value

    def kill(self) -> None:
        """Ends the process at once; whoever waits in ``receive`` gets Lost."""
        self._process.kill()

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()
