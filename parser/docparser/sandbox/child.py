# SPDX-License-Identifier: Apache-2.0
"""Inside a child process: bounds are set, jobs are performed one after the other. It ends with its socket.

A request is one message with two open files: the job's input, and where its output goes. The kernel holds the bounds:
RLIMIT_CPU (the process ends by SIGXCPU), RLIMIT_AS (MemoryError) and RLIMIT_FSIZE (EFBIG). Time is bounded by the
other side, which kills the process.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from bounded_child import bound, bound_cpu, confine, end_with_parent
from docparser.errors import ParserError

MESSAGE = 1 << 16  # bytes of the longest request or answer

# Reads the input, writes the output; the first argument are further, small arguments. Raises ParserError.
Job = Callable[[dict[str, Any], BinaryIO, BinaryIO], None]


def serve(control: socket.socket, jobs: Mapping[str, Job], zygote: int) -> NoReturn:
    """``zygote`` is the process that forked this one."""
    try:
        end_with_parent(zygote, one_thread=True)
        confine(oom_score=1000)
        started, peak = _address_space(), _peak()
        while True:
            message, files, _, _ = socket.recv_fds(control, MESSAGE, 2)
            if not message:
                os._exit(0)
            request = json.loads(message)
            with contextlib.suppress(OSError), open(files[0], "rb") as source, open(files[1], "wb") as sink:
                reply = _perform(jobs[request["job"]], request, started, source, sink)
                # Closing an output that is too large fails once more, at what is left in its buffer.
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
