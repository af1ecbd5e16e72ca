# SPDX-License-Identifier: Apache-2.0
"""The Ray cluster of a run: this machine's own or an existing one, and the check that it is still the same."""

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
READER = 3 << 29  # bytes: 1 GiB for the published layout model, half of one for drawing most pages
CHECK_S = 5.0
LOST_S = 45.0  # a head that is busy may take some seconds to answer


def cores_for_readers(cores: int, memory: int | None) -> int:
    """All cores for which the memory of container and machine is enough, since each core gets a reader. The kernel ends
    readers at the limit, and a document that ended two readers is set aside."""
    return max(1, min(cores, memory // READER if memory else cores))


@contextmanager
def joined(address: str, cpus: int, *, dashboard: bool, lost: Callable[[], None]) -> Iterator[None]:
    """Ray at ``address``, or on this machine if that is empty, as long as the context. ``cpus`` are this machine's
    cores to use; 0: as many as its memory is enough for. ``lost`` is called in a thread when the joined cluster is
    gone. Raises ConnectionError where there is none."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
    if address:
        ray.init(address=address, **quiet)
    else:
        ray.init(
            num_cpus=cpus or cores_for_readers(cgroup.cores(), cgroup.memory()),
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
    """Checks that the head still knows this driver's node. A restarted head has the old address but knows nothing of
    the run. Ray does not report that, and the run's calls would wait for ever."""

    def __init__(self, lost: Callable[[], None]) -> None:
        self._node = ray.get_runtime_context().get_node_id()
        self._lost = lost
        self._seen = time.monotonic()
        self._ended = threading.Event()
        # Two threads, because the question may never be answered.
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
    """End this process at once, because Ray's own threads may wait for ever."""
    os._exit(1)
