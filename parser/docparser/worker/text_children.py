# SPDX-License-Identifier: Apache-2.0
"""The child processes of a worker. They are forked before Paddle is loaded, so they cost little memory and no start."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import tempfile
from typing import Any

from docparser.sandbox.pool import ChildPool, JobHandle
from docparser.sandbox.process import Bounds, Reach, Zygote
from docparser.worker.text_jobs import JOBS

log = logging.getLogger(__name__)

WRITERS = ("word", "join", "join_sent")  # jobs that may make a Word file, for which PaddleX wants a folder
QUICK, MOST = 2, 6  # tasks at a time; see ChildPool


class TextChildren:
    """Make it while the process has one thread, and no secret yet. Threads may share it."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._forked: Zygote | None = Zygote.fork(JOBS)
        self._pool = ChildPool(self._zygote, quick=QUICK, most=MOST)
        self._pool.prepare()

    def _zygote(self) -> Zygote:
        if self._forked is None:
            log.error("the process that makes children ended; the worker ends too, for only a new one can fork it")
            os._exit(1)
        zygote, self._forked = self._forked, None
        return zygote

    def run(self, job: str, task: Any, what: str, *, pages: int = 1, call: JobHandle | None = None) -> bytes:
        """The output of a job of ``text_jobs``. Raises what ``ChildPool.run`` raises."""
        with contextlib.ExitStack() as stack:
            source, sink = (stack.enter_context(open(os.memfd_create(job), "w+b")) for _ in range(2))
            pickle.dump(task, source, protocol=pickle.HIGHEST_PROTOCOL)
            source.seek(0)
            reach = None
            if job in WRITERS:
                reach = Reach(folder=stack.enter_context(tempfile.TemporaryDirectory(prefix="docparser-")))
            bounds = self._bounds.for_pages(pages)
            self._pool.run(job, {}, (source.fileno(), sink.fileno()), bounds, what, call, reach)
            sink.seek(0)
            return sink.read()
