# SPDX-License-Identifier: Apache-2.0
"""The Ray cluster of a run: this machine's own, or one that is there, and whether it is still the same."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ray

import cgroup

OBJECT_STORE = 256 << 20  # bytes: rows of some hundred bytes each
READER = 3 << 29  # bytes: 1 GiB for the published layout model, and half of one for what most pages need to be drawn
CHECK_S = 5.0
LOST_S = 45.0  # a head that is busy may take some seconds to answer


def cores_for_readers(cores: int, memory: int | None) -> int:
    """All cores, but no more than the container's or the machine's memory is enough for, since each gets a reader: the
    kernel ends readers at the limit, and a document that two of them ended on is set aside."""
    return max(1, min(cores, memory // READER if memory else cores))


@contextmanager
def joined(address: str, cpus: int, *, dashboard: bool, lost: Callable[[], None]) -> Iterator[None]:
    """Ray at ``address``, or on this machine where that is empty, as long as the context. ``cpus`` are cores of this
    machine, 0 for as many as its memory is enough for. ``lost`` is called in a thread when the cluster is no longer the
    one that was joined. Raises ConnectionError where there is none."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
    if address:
        ray.init(address=address, **quiet)
    else:
        ray.init(
            num_cpus=cpus or cores_for_readers(len(os.sched_getaffinity(0)), cgroup.memory()),
            object_store_memory=OBJECT_STORE,
            include_dashboard=dashboard,
            _node_ip_address="127.0.0.1",
            **quiet,
        )
    watch = Watch(lost)
    try:
        yield
    finally:
        watch.end()
        ray.shutdown()


class Watch:
    """Asks whether the head still knows this driver's node. A restarted head has the old address and knows nothing
    of the run. Ray does not say so, and the run's calls would wait for ever."""

    def __init__(self, lost: Callable[[], None]) -> None:
        self._node = ray.get_runtime_context().get_node_id()
        self._lost = lost
        self._seen = time.monotonic()
        self._ended = threading.Event()
        # Two threads: the question may not be answered at all.
        for work in (self._ask, self._judge):
            threading.Thread(target=work, name=f"cluster{work.__name__}", daemon=True).start()

    def end(self) -> None:
        self._ended.set()

    def _ask(self) -> None:
        while not self._ended.wait(CHECK_S):
            try:
                alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
            except Exception:  # of any kind while the head is away
                continue
            if self._node in alive:
                self._seen = time.monotonic()

    def _judge(self) -> None:
        while not self._ended.wait(CHECK_S):
            if time.monotonic() - self._seen > LOST_S:
                self._lost()
                return


def leave() -> None:
    """End this process at once: Ray's own threads may wait for what will never come."""
    os._exit(1)
