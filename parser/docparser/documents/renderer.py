# SPDX-License-Identifier: Apache-2.0
"""The worker's end of a renderer (``render_main``): the process, its one request, and its answer as it arrives."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

import numpy as np

from bounded_child import cpu_s, environment
from docparser.documents.page import LONGEST_SIDE, DocumentLimits
from docparser.documents.spool import OpenDocument
from docparser.own_text.characters import MOST_BYTES, Characters, ForeignBytes

MODULE = "docparser.documents.render_main"
LOWER_PRIORITY = 10  # added to nice(1): about a tenth of the CPU where others want it
PIPE_BYTES = 1 << 20
LONGEST_HEADER = 1 << 16
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class RendererEnded(Exception):
    """The process ended before its answer was complete; the message says how."""


class Renderer:
    """One process, for one thread at a time: ``ask``, then ``pump`` until it says True, then ``answer``, ``pixels``,
    ``characters``."""

    def __init__(self, limits: DocumentLimits) -> None:
        self._most_pixels = max(limits.max_image_pixels, 2 * limits.max_pdf_page_pixels)
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", MODULE, json.dumps(dataclasses.asdict(limits))],
                stdin=theirs.fileno(),
                stdout=subprocess.PIPE,
                env=environment(OPENBLAS_NUM_THREADS="1"),
                bufsize=0,
            )
        assert self._process.stdout is not None, "it is a pipe"
        self._answers = self._process.stdout.fileno()
        with contextlib.suppress(OSError):  # the user's share of pipe memory is used up
            fcntl.fcntl(self._answers, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(self._answers, False)
        self._poll = select.poll()
        self._poll.register(self._answers, select.POLLIN)
        self.apart = False
        self._started = False
        self._cpu_before = 0.0

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, document: OpenDocument, index: int | None, *, own_text: bool = False) -> None:
        """Ask for page ``index`` (from 0), with or without its own text, or for the number of pages."""
        self._header, self._filled = bytearray(), 0
        self._body: memoryview | None = None
        self.answer: dict = {}
        self.pixels: np.ndarray | None = None
        self._page_bytes = 0
        self._asked_at, self._cpu_before = time.monotonic(), self._cpu_s()
        self.cpu_s = 0.0  # seconds of CPU time since now, as ``pump`` last saw it
        request = {"format": document.format, "index": index, "own_text": own_text}
        with contextlib.suppress(ConnectionError):  # `pump` reports that the process is gone
            socket.send_fds(self._requests, [json.dumps(request).encode()], [document.file])

    def pump(self, timeout_s: float) -> bool:
        """Take the bytes that have arrived. True once the answer is complete. Raises RendererEnded."""
        if not self._poll.poll(timeout_s * 1000):
            self.cpu_s = self._cpu_s() - self._cpu_before if self._started else 0.0
            return False
        with contextlib.suppress(BlockingIOError):
            while not self._complete:
                if self._body is None:
                    self._take(os.read(self._answers, LONGEST_HEADER))
                else:
                    count = os.readv(self._answers, [self._body[self._filled :]])
                    self._filled += self._or_ended(count)
        return self._complete

    def _take(self, data: bytes) -> None:
        self._or_ended(len(data))
        self._header += data
        if not self._started and b"\n" in self._header:  # its first line: from now on it works on the request
            self._started, self._header = True, self._header.partition(b"\n")[2]
            self._asked_at, self._cpu_before = time.monotonic(), self._cpu_s()
        line, end, rest = self._header.partition(b"\n")
        if not end:
            if len(self._header) > LONGEST_HEADER:
                raise self._foul("a line without an end")
            return
        try:
            self.answer = json.loads(line)
            height, width, text = (self.answer.get(name, 0) for name in ("height", "width", "text"))
        except (ValueError, AttributeError):
            raise self._foul("no JSON object") from None
        if not height:
            self._body = memoryview(b"")
            return
        if not (0 < height <= LONGEST_SIDE and 0 < width <= LONGEST_SIDE and height * width <= self._most_pixels):
            raise self._foul(f"a page of {width} x {height} pixels")
        if not 0 <= text <= MOST_BYTES:
            raise self._foul(f"a text of {text} bytes")
        self._page_bytes = height * width * 3
        body = np.empty(self._page_bytes + text, np.uint8)
        self.pixels = body[: self._page_bytes].reshape(height, width, 3)
        self._body = body.data
        self._body[: len(rest)] = rest
        self._filled = len(rest)

    @property
    def characters(self) -> Characters | None:
        """The page's characters, if they were asked for. Raises RendererEnded for bytes that no renderer would send."""
        text = b"" if self._body is None else self._body[self._page_bytes :].tobytes()
        try:
            return Characters.from_bytes(text) if text else None
        except ForeignBytes as exc:
            raise self._foul(str(exc)) from None

    @property
    def _complete(self) -> bool:
        return self._body is not None and self._filled == len(self._body)

    def _or_ended(self, count: int) -> int:
        if not count:
            raise RendererEnded(self._how_it_ended())
        return count

    def _foul(self, what: str) -> RendererEnded:
        self.kill()
        return RendererEnded(f"it sent {what}")

    def _how_it_ended(self) -> str:
        try:
            status = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return "it closed its pipe"
        return signal.Signals(-status).name if status < 0 else f"exit status {status}"

    @property
    def wall_s(self) -> float:
        """Seconds since ``ask``, or since the process was ready."""
        return time.monotonic() - self._asked_at

    @property
    def memory_mib(self) -> float:
        """Memory that it shares with no other process; 0 once it has ended."""
        try:
            with open(f"/proc/{self.pid}/statm", "rb") as file:
                _, resident, shared, *_ = map(int, file.read().split())
        except OSError:
            return 0.0
        return (resident - shared) * PAGE_BYTES / 2**20  # proc(5)

    def _cpu_s(self) -> float:
        try:
            return cpu_s(self.pid)
        except OSError:  # it has ended; `pump` says so
            return self._cpu_before

    def step_aside(self) -> None:
        """Lower its priority for good."""
        self.apart = True
        with contextlib.suppress(OSError):
            now = os.getpriority(os.PRIO_PROCESS, self.pid)
            os.setpriority(os.PRIO_PROCESS, self.pid, now + LOWER_PRIORITY)  # the kernel ends at 19

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._requests.close()
        assert self._process.stdout is not None
        self._process.stdout.close()
