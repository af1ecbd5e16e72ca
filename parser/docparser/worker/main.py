# SPDX-License-Identifier: Apache-2.0
"""Entry point of a worker process: it loads the pipeline once, then parses pages (``task_runner``).

Documents are opened and pages are decoded here and not in the service's own process, so that a file that crashes a
decoder costs one worker, which is replaced.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from multiprocessing.connection import Connection

from bounded_child import end_with_parent
from docparser.errors import ParserError
from docparser.logs import configure_logging
from docparser.settings import Settings
from docparser.worker import offline
from docparser.worker.baton import HolderSlot
from docparser.worker.messages import Answer
from docparser.worker.task_runner import TaskRunner

M_ARENA_MAX = -8  # glibc's malloc.h


def main(connection: Connection, settings: Settings, slot: ctypes.Array[ctypes.c_double]) -> None:
    """Entry point of the process. Returns when the service closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the service ends its workers
    configure_logging(settings.log_level, settings.log_format)
    parent = os.getppid()
    _limit_malloc_arenas()
    offline.prepare(settings)
    from docparser.worker.page_work import TextChildren  # not at the top: offline.prepare must come first

    children = TextChildren(settings)  # forked while this process has one thread
    end_with_parent(parent)  # a busy worker would see the closed pipe only minutes later
    try:
        worker = TaskRunner(connection, settings, HolderSlot(slot), children)
    except ParserError as exc:
        connection.send(Answer(0, exc))
        return
    worker.run()
    os._exit(0)  # threads may still compute cancelled pages


def _limit_malloc_arenas() -> None:
    """Two heaps for all threads. glibc gives each thread a heap and never shrinks it, so 16 threads would keep the
    memory of 16 pages for good."""
    with contextlib.suppress(OSError, AttributeError):  # another C library, without mallopt
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)
