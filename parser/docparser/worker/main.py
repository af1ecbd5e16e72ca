# SPDX-License-Identifier: Apache-2.0
"""A worker process: it loads the pipeline once, then parses pages (``task_runner``).

    python -m docparser.worker.main CONNECTION SLOT JSON

CONNECTION is the descriptor of its pipe, on which the settings come first; SLOT that of the memory of its
``HolderSlot``. JSON has what is needed before: the worker's ``name``, the ``cache`` folder, ``level`` and ``format`` of
the log, and ``bounds`` of the text children, whose zygote is forked before the settings with their secrets are here.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import multiprocessing
import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from bounded_child import end_with_parent
from docparser import traces
from docparser.errors import ParserError
from docparser.logs import configure_logging
from docparser.sandbox.process import Bounds
from docparser.settings import Settings
from docparser.worker import offline
from docparser.worker.messages import Answer
from docparser.worker.process import HolderSlot, SharedSlot
from isolation import hide

M_ARENA_MAX = -8  # glibc's malloc.h


def main(words: list[str]) -> None:
    """``words``: the arguments above. Returns when the service closes the pipe."""
    hide()
    connection, first = Connection(int(words[0])), json.loads(words[2])
    slot = HolderSlot(SharedSlot.from_buffer(mmap.mmap(int(words[1]), mmap.PAGESIZE)))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the service ends its workers
    multiprocessing.current_process().name = first["name"]  # for the log
    configure_logging(first["level"], first["format"])
    parent = os.getppid()
    _limit_malloc_arenas()
    offline.prepare(Path(first["cache"]))
    # Not at the top: offline.prepare must come first, or NumPy alone starts a thread for each core of the machine.
    from docparser.worker.page_work import TextChildren
    from docparser.worker.task_runner import TaskRunner

    children = TextChildren(Bounds(**first["bounds"]))  # forked while this process has one thread and no secret
    end_with_parent(parent)  # a busy worker would see the closed pipe only minutes later
    settings: Settings = connection.recv()
    traces.start(settings)
    try:
        worker = TaskRunner(connection, settings, slot, children)
    except ParserError as exc:
        connection.send(Answer(0, exc))
        return
    worker.run()
    traces.stop()
    os._exit(0)  # threads may still compute cancelled pages


def _limit_malloc_arenas() -> None:
    """Two heaps for all threads. glibc gives each thread a heap and never shrinks it, so 16 threads would keep the
    memory of 16 pages for good."""
    with contextlib.suppress(OSError, AttributeError):  # another C library, without mallopt
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)


if __name__ == "__main__":
    main(sys.argv[1:])
