# SPDX-License-Identifier: Apache-2.0
"""The process that forks children, and what runs inside these.

The zygote has one thread, no secrets in its environment, and reads nothing of strangers.

    python -m docparser.sandbox.zygote FD NAME=MODULE:FUNCTION...

FD is its control socket. Its messages: ``fork`` with the child's socket, answered by the child's number; ``reap N``,
which kills that child if it has not ended, answered by its wait status. The socket's end is the zygote's end.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import json
import os
import resource
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from bounded_child import bound, bound_cpu, confine, end_with_parent
from docparser.errors import ParserError
from isolation import hide, isolate

PACKAGE = Path(__file__).parents[1]
FONT = "PADDLE_PDX_LOCAL_FONT_FILE_PATH"  # the file that PaddleX draws words with
MESSAGE = 1 << 16  # bytes of the longest request or answer

# Reads the input, writes the output; the first argument has further, small arguments. Raises ParserError.
Job = Callable[[dict[str, Any], BinaryIO, BinaryIO], None]


def serve_jobs(control: socket.socket, jobs: Mapping[str, Job], zygote: int) -> NoReturn:
    """``zygote`` is the process that forked this one."""
    try:
        end_with_parent(zygote, one_thread=True)
        confine(oom_score=1000)
        started, peak = _address_space(), _peak()
        isolated = False
        while True:
            message, files, _, _ = socket.recv_fds(control, MESSAGE, 2)
            if not message:
                os._exit(0)
            request = json.loads(message)
            if not isolated:
                fonts = [os.environ[FONT]] if FONT in os.environ else []
                tempfile.tempdir = request["folder"]
                isolate([PACKAGE, *fonts, *request["readable"]], request["folder"])
                isolated = True
            with contextlib.suppress(OSError), open(files[0], "rb") as source, open(files[1], "wb") as sink:
                reply = _perform(jobs[request["job"]], request, started, source, sink)
                # Closing an output that is too large fails once more, on the rest of its buffer.
            reply["grown"] = _peak() - peak
            control.send(json.dumps(reply).encode()[:MESSAGE])
            if "failed" in reply or reply.get("bound") == "memory":
                os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _perform(job: Job, request: dict[str, Any], started: int, source: BinaryIO, sink: BinaryIO) -> dict[str, Any]:
    """The answer: empty; or the ``bound`` that was exceeded; ``error`` and ``message`` of a ParserError; ``failed``."""
    bounds = request["bounds"]
    bound_cpu(bounds["cpu_s"])
    bound(resource.RLIMIT_AS, started + bounds["memory"])
    bound(resource.RLIMIT_FSIZE, bounds["output"])
    try:
        job(request["args"], source, sink)
        sink.flush()
    except ParserError as exc:
        return {"error": type(exc).__name__, "message": str(exc)[:4000]}
    except Exception as exc:
        if exceeded := _bound_of(exc):
            return {"bound": exceeded}
        traceback.print_exc(file=sys.stderr)
        return {"failed": f"{type(exc).__name__}: {exc}"[:1000]}
    return {}


def _bound_of(exc: BaseException | None) -> str:
    """The bound that an exception, or the one that it came from, tells of; "" if none does."""
    while exc is not None:
        if isinstance(exc, MemoryError):
            return "memory"
        if isinstance(exc, RecursionError):
            return "nesting"
        if isinstance(exc, OSError) and exc.errno == errno.EFBIG:
            return "output"
        exc = exc.__cause__ or exc.__context__
    return ""


def _peak() -> int:
    """The most bytes that this process has had in memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _address_space() -> int:
    """Bytes of this process's address space."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def load(words: list[str]) -> dict[str, Job]:
    """``NAME=MODULE:FUNCTION`` -> the functions by their names."""
    jobs = {}
    for word in words:
        name, _, place = word.partition("=")
        module, _, function = place.partition(":")
        jobs[name] = getattr(importlib.import_module(module), function)
    return jobs


def serve_forks(control: socket.socket, jobs: Mapping[str, Job]) -> NoReturn:
    hide()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the socket's end ends the zygote
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.collect()
    gc.freeze()  # a collection in a child would copy every page of memory that it shares with this process
    while True:
        try:
            message, files, _, _ = socket.recv_fds(control, MESSAGE, 1)
        except ConnectionError:
            os._exit(0)
        if not message:
            os._exit(0)
        if message == b"fork":
            control.send(str(_fork(control, files[0], jobs)).encode())
        else:
            pid = int(message.split()[1])
            os.kill(pid, signal.SIGKILL)
            control.send(str(os.waitpid(pid, 0)[1]).encode())


def _fork(control: socket.socket, theirs: int, jobs: Mapping[str, Job]) -> int:
    zygote = os.getpid()
    pid = os.fork()
    if not pid:
        control.close()
        serve_jobs(socket.socket(fileno=theirs), jobs, zygote)
    os.close(theirs)
    return pid


if __name__ == "__main__":
    serve_forks(socket.socket(fileno=int(sys.argv[1])), load(sys.argv[2:]))
