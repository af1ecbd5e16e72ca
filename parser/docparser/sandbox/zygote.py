# SPDX-License-Identifier: Apache-2.0
"""The process that forks children. It has one thread, no secrets in its environment, and reads nothing of strangers.

    python -m docparser.sandbox.zygote FD NAME=MODULE:FUNCTION...

FD is its control socket. Its messages: ``fork`` with the child's socket, answered by the child's number; ``reap N``,
answered by the wait status of that child, which has ended or been killed. The socket's end is the zygote's end.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import sys
from collections.abc import Mapping
from typing import NoReturn

from docparser.sandbox import child
from docparser.sandbox.child import MESSAGE, Job


def load(words: list[str]) -> dict[str, Job]:
    """``NAME=MODULE:FUNCTION`` -> the functions by their names."""
    jobs = {}
    for word in words:
        name, _, place = word.partition("=")
        module, _, function = place.partition(":")
        jobs[name] = getattr(importlib.import_module(module), function)
    return jobs


def serve(control: socket.socket, jobs: Mapping[str, Job]) -> NoReturn:
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
            control.send(str(os.waitpid(int(message.split()[1]), 0)[1]).encode())


def _fork(control: socket.socket, theirs: int, jobs: Mapping[str, Job]) -> int:
    zygote = os.getpid()
    pid = os.fork()
    if not pid:
        control.close()
        child.serve(socket.socket(fileno=theirs), jobs, zygote)
    os.close(theirs)
    return pid


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), load(sys.argv[2:]))
