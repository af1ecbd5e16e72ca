# SPDX-License-Identifier: Apache-2.0
"""Children in reserve: a job gets one that waits, or a new one. Few are kept when there is little to do."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from docparser import errors
from docparser.errors import BoundExceeded, InternalError, ParserError, UnreadableText
from docparser.sandbox.process import Bounds, Child, ChildEnded, ChildSlow, Reach, Zygote, ZygoteGone

log = logging.getLogger(__name__)

MAX_JOBS = 500  # of one child; then a new one takes its place, free of anything that libraries keep
MAX_GROWTH = 64 << 20  # bytes: a child that has needed more ends, for it keeps them
QUICK_S = 1.0  # a longer job lowers its priority and frees its place among the quick ones
IDLE = 1  # children that wait for work
CHECK_S = 0.5  # a job that waits for a place learns by then that it was cancelled
TRIES = 2  # of a job whose child may have ended for another reason than the job


class JobHandle:
    """One job, which any thread may cancel."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: Child | None = None
        self.cancelled = False

    def cancel(self) -> None:
        """End the child that works on it; the job ends with Cancelled."""
        with self._lock:
            self.cancelled = True
            if self._child is not None:
                self._child.kill()

    @contextlib.contextmanager
    def on(self, child: Child) -> Iterator[None]:
        with self._lock:
            if self.cancelled:
                raise Cancelled
            self._child = child
        try:
            yield
        finally:
            with self._lock:
                self._child = None


class Cancelled(Exception):
    """Nobody waits for the job any more."""


class ChildPool:
    """``quick`` jobs run at a time. Slow jobs run beside them with the lowest priority, ``most`` jobs in all. So a
    quick job never waits for slow ones, until ``most`` of these are at work. A job that is ``aside`` counts as a slow
    one from its beginning.

    ``start`` makes the zygote; where it cannot be made again, it raises.
    """

    def __init__(self, start: Callable[[], Zygote], *, quick: int, most: int) -> None:
        self._start = start
        self._quick = threading.Semaphore(quick)
        self._places = threading.Semaphore(max(quick, most))
        self._lock = threading.Lock()
        self._zygote: Zygote | None = None
        self._waiting: list[Child] = []
        self._closed = False

    def prepare(self) -> None:
        """Make the child that waits for work, so that the first job need not wait for it."""
        self._put_back(self._take())

    def close(self) -> None:
        """End all children; their jobs end with Cancelled or InternalError."""
        with self._lock:
            self._closed = True
            zygote, self._zygote = self._zygote, None
        if zygote is not None:
            zygote.close()

    def run(
        self,
        job: str,
        args: Mapping[str, Any],
        files: tuple[int, int],
        bounds: Bounds,
        what: str,
        call: JobHandle | None = None,
        reach: Reach | None = None,
        *,
        aside: bool = False,
    ) -> None:
        """Perform ``job`` on the open ``files`` (input, output). ``what`` begins the message of an error. A job with
        ``reach`` has a child to itself.

        Raises BoundExceeded, UnreadableText, the job's own ParserError, Cancelled.
        """
        call = call or JobHandle()
        with self._place(call):
            quick = contextlib.ExitStack()
            with quick:
                if not aside:
                    quick.enter_context(self._quick)
                for left in reversed(range(TRIES)):
                    if call.cancelled:
                        raise Cancelled
                    child = self._take(unused=reach is not None)
                    if aside:
                        child.lower_priority()

                    def on_slow(child: Child = child) -> None:
                        child.lower_priority()
                        quick.close()

                    try:
                        with call.on(child):
                            answer = child.run(job, args, files, bounds, QUICK_S, on_slow, reach or Reach())
                    except ChildSlow:
                        child.end()
                        raise BoundExceeded(f"{what}: {bounds.exceeded('wall')}") from None
                    except ChildEnded:
                        ended_by = child.end()
                        if call.cancelled:
                            raise Cancelled from None
                        if ended_by == signal.SIGXCPU:
                            raise BoundExceeded(f"{what}: {bounds.exceeded('cpu')}") from None
                        # An earlier job may have damaged the child, the kernel may have wanted memory, or the zygote
                        # may have ended.
                        if left and (child.jobs > 1 or ended_by == signal.SIGKILL):
                            os.lseek(files[0], 0, os.SEEK_SET)
                            os.ftruncate(files[1], 0)
                            os.lseek(files[1], 0, os.SEEK_SET)
                            continue
                        name = signal.Signals(ended_by).name if ended_by else "itself"
                        log.error("%s: its child process was ended by %s", what, name)
                        raise UnreadableText(
                            f"{what}: the process for it crashed ({name}); it may use at most {bounds.memory >> 20} "
                            "MiB of memory (PARSER_CHILD_MEMORY_MIB)"
                        ) from None
                    except BaseException:
                        child.end()
                        raise
                    return self._finish(child, answer, bounds, what, once=reach is not None)

    @contextlib.contextmanager
    def _place(self, call: JobHandle) -> Iterator[None]:
        while not self._places.acquire(timeout=CHECK_S):  # slow jobs may keep all of them for minutes
            if call.cancelled:
                raise Cancelled
        try:
            yield
        finally:
            self._places.release()

    def _finish(self, child: Child, answer: dict[str, Any], bounds: Bounds, what: str, once: bool) -> None:
        if once or "failed" in answer or answer.get("bound") == "memory" or child.lowered:
            child.end()
        else:
            self._put_back(child, answer["grown"])
        if bound := answer.get("bound"):
            raise BoundExceeded(f"{what}: {bounds.exceeded(bound)}")
        if name := answer.get("error"):
            kind = getattr(errors, name, InternalError)
            raise (kind if issubclass(kind, ParserError) else InternalError)(answer["message"])
        if failure := answer.get("failed"):
            log.error("%s: %s", what, failure)
            raise UnreadableText(f"{what}: its text cannot be read ({failure.partition(':')[0]})")

    def _take(self, unused: bool = False) -> Child:
        with self._lock:
            if self._closed:
                raise Cancelled
            if self._waiting and not (unused and self._waiting[-1].jobs):
                return self._waiting.pop()
            if self._zygote is None:
                self._zygote = self._start()
            zygote = self._zygote
        try:
            child = zygote.child()
        except ZygoteGone:
            if self._closed:
                raise Cancelled from None
            with self._lock:
                self._waiting = [child for child in self._waiting if child.zygote is not zygote]
                if self._zygote is zygote:
                    log.error("the process that makes children ended; it is started again")
                    self._zygote = None
                    zygote.close()
            return self._take(unused)
        return child

    def _put_back(self, child: Child, grown: int = 0) -> None:
        """Keep the child for the next job, unless it has grown old or big, or enough are waiting."""
        with self._lock:
            if not self._closed and child.jobs < MAX_JOBS and grown < MAX_GROWTH and len(self._waiting) < IDLE:
                return self._waiting.append(child)
        child.end()
