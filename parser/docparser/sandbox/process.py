# SPDX-License-Identifier: Apache-2.0
"""The bounds of a child process's job, and the handles of a zygote and of its children.

All methods block. Threads may share a zygote, but a child belongs to one thread at a time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Self

from bounded_child import environment
from docparser.sandbox import zygote
from docparser.sandbox.zygote import MESSAGE, Job
from docparser.settings import Settings

PAGES_PER_SHARE = 100  # a document of 100 pages may take twice the time of a short one, and so on
ANSWER_S = 120.0  # a fork takes milliseconds; the first one waits for the imports


@dataclasses.dataclass(frozen=True)
class Bounds:
    """``cpu_s`` and ``wall_s`` in seconds; ``memory`` in bytes beyond the zygote's; ``output`` in bytes."""

    cpu_s: float
    wall_s: float
    memory: int
    output: int

    @classmethod
    def of(cls, settings: Settings) -> Bounds:
        return cls(
            settings.child_cpu_s,
            settings.child_wall_s,
            settings.child_memory_mib << 20,
            settings.child_output_mib << 20,
        )

    def for_pages(self, count: int) -> Bounds:
        """The bounds of a job over ``count`` pages. Time grows with the pages; parsing each took far longer."""
        shares = 1 + count / PAGES_PER_SHARE
        return dataclasses.replace(self, cpu_s=self.cpu_s * shares, wall_s=self.wall_s * shares)

    def exceeded(self, bound: str) -> str:
        """In words, with the setting that the operator can change; ``bound`` is a key of the table below."""
        return {
            "cpu": f"it took more than {self.cpu_s:.0f} s of processor time (PARSER_CHILD_CPU_S)",
            "wall": f"it took more than {self.wall_s:.0f} s (PARSER_CHILD_WALL_S)",
            "memory": f"it needs more than {self.memory >> 20} MiB of memory (PARSER_CHILD_MEMORY_MIB)",
            "output": f"the output is larger than {self.output >> 20} MiB (PARSER_CHILD_OUTPUT_MIB)",
            "nesting": "its text is nested too deeply",
        }[bound]


@dataclasses.dataclass(frozen=True)
class Reach:
    """The paths that a job may open: files and folders to read, and a folder of its own to write."""

    readable: tuple[str, ...] = ()
    folder: str | None = None


class ZygoteGone(Exception):
    """The zygote has ended: somebody killed it."""


class ChildEnded(Exception):
    """The child ended before it answered."""


class ChildSlow(Exception):
    """The child did not answer in time."""


class Child:
    """``zygote`` is the one that forked it."""

    def __init__(self, pid: int, zygote: Zygote, control: socket.socket) -> None:
        self.pid, self.zygote, self.jobs, self.lowered = pid, zygote, 0, False
        self._control = control

    def run(
        self,
        job: str,
        args: Mapping[str, Any],
        files: tuple[int, int],
        bounds: Bounds,
        patience_s: float,
        on_slow: Callable[[], None],
        reach: Reach,
    ) -> dict[str, Any]:
        """The child's answer; ``on_slow`` is called when it takes longer than ``patience_s``. ``reach`` is settled by
        the child's first job. Raises ChildEnded, ChildSlow."""
        self.jobs += 1
        request = {"job": job, "args": args, "bounds": vars(bounds), **vars(reach)}
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], files)
            if not self._answers(min(patience_s, bounds.wall_s)):
                on_slow()
                if not self._answers(bounds.wall_s - patience_s):
                    raise ChildSlow
            answer = self._control.recv(MESSAGE)
        except OSError as exc:
            raise ChildEnded from exc
        if not answer:
            raise ChildEnded
        return json.loads(answer)

    def _answers(self, timeout_s: float) -> bool:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        return bool(poll.poll(max(0.0, timeout_s) * 1000))

    def lower_priority(self) -> None:
        """For good: only a privileged process may raise it again."""
        self.lowered = True
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self.pid, 19)

    def kill(self) -> None:
        """Safe at any time: no other process gets its number before the zygote has reaped it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def end(self) -> int:
        """End it, if it still runs. Returns the signal that ended it, 0 if it ended by itself. A zygote that is gone
        has taken its children with it."""
        self._control.close()
        try:
            status = self.zygote.reap(self.pid)
        except ZygoteGone:
            return signal.SIGKILL
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


class Zygote:
    """``started`` is the process if it was started as a program of its own, or its number if it was forked."""

    def __init__(self, control: socket.socket, started: subprocess.Popen | int) -> None:
        self._control, self._started = control, started
        self._lock = threading.Lock()
        control.settimeout(ANSWER_S)

    @classmethod
    def spawn(cls, jobs: Mapping[str, str]) -> Self:
        """As a program of its own; ``jobs`` are ``MODULE:FUNCTION`` by name."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [f"{name}={place}" for name, place in jobs.items()]
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", zygote.__name__, str(theirs.fileno()), *words],
                env=environment(OPENBLAS_NUM_THREADS="1"),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        return cls(ours, process)

    @classmethod
    def fork(cls, jobs: Mapping[str, Job]) -> Self:
        """From this process, which must still have one thread; the modules that it has loaded cost nothing again."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if not pid:
            try:
                os.closerange(3, theirs.fileno())
                os.closerange(theirs.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
                zygote.serve_forks(theirs, jobs)
            finally:
                os._exit(1)
        theirs.close()
        return cls(ours, pid)

    @property
    def pid(self) -> int:
        return self._started if isinstance(self._started, int) else self._started.pid

    def child(self) -> Child:
        """A new child. Raises ZygoteGone."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                return Child(int(self._ask(b"fork", theirs)), self, ours)
            except BaseException:
                ours.close()
                raise

    def reap(self, pid: int) -> int:
        """End a child and return its wait status: how it ended, if it had ended before. Raises ZygoteGone."""
        return int(self._ask(b"reap %d" % pid))

    def _ask(self, message: bytes, *files: socket.socket) -> bytes:
        with self._lock:
            try:
                socket.send_fds(self._control, [message], [file.fileno() for file in files])
                answer = self._control.recv(MESSAGE)
            except OSError as exc:
                self._control.close()  # ends it if it still runs: its late answer must not pass for another job's
                raise ZygoteGone from exc
        if not answer:
            raise ZygoteGone
        return answer

    def close(self) -> None:
        """End it, and with it all its children."""
        self._control.close()
        if isinstance(self._started, int):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._started, 0)
        else:
            self._started.wait()
