# SPDX-License-Identifier: Apache-2.0
"""VLM servers that a run starts itself: one for each NPU that it asks the cluster for, ended with the run."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import ray
import ray.util

from bundle.paths import ENVS_DIR, RUN_DIR
from health_probe import probe
from tool_errors import ServiceError, UsageError

NPU = "NPU"  # Ray's name of the resource; Ray sets ASCEND_RT_VISIBLE_DEVICES for who has one
READY_S = 900.0
AGAIN_S = 3.0
# Ray's own, and the one thread that it grants to an actor without cores.
DROPPED = ("RAY_", "OMP_NUM_THREADS", "PYTHONPATH")


class Engine:
    """An actor on the node that has the NPU. The server is started again when it ends."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._host = ray.util.get_node_ip_address()
        with socket.socket() as trial:
            trial.bind(("", 0))
            self._port: int = trial.getsockname()[1]
        self._env = {k: value for k, value in {**settings, **os.environ}.items() if not k.startswith(DROPPED)}
        self._env |= {"VLM_HOST": self._host, "VLM_PORT": str(self._port)}
        self._ending = threading.Event()
        self._server = self._start()
        threading.Thread(target=self._keep, name="engine", daemon=True).start()

    def url(self) -> str:
        """The server's API root, once it is healthy. Raises ServiceError."""
        deadline = time.monotonic() + READY_S
        while not probe(f"http://{self._host}:{self._port}/health").healthy:
            if time.monotonic() > deadline:
                raise ServiceError(f"--engines: the VLM server on {self._host} is not ready after {READY_S:.0f} s")
            time.sleep(1)
        return f"http://{self._host}:{self._port}/v1"

    def end(self) -> None:
        self._ending.set()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._server.pid, signal.SIGTERM)
        try:
            self._server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._server.pid, signal.SIGKILL)

    def _start(self) -> subprocess.Popen[bytes]:
        log = RUN_DIR / "logs" / f"corpus-vlm-{self._port}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as sink:
            # A group of its own: vLLM's processes are ended together.
            return subprocess.Popen(
                [str(ENVS_DIR / "vlm/bin/python"), "-m", "vlm_server"],
                env=self._env,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )

    def _keep(self) -> None:
        while not self._ending.is_set():
            self._server.wait()
            if not self._ending.wait(AGAIN_S):
                self._server = self._start()


@contextlib.contextmanager
def started(count: int, settings: Mapping[str, str], patience_s: float) -> Iterator[tuple[str, ...]]:
    """The API roots of ``count`` VLM servers. Raises UsageError where the cluster has not so many NPUs, ServiceError
    for one that does not become ready within ``patience_s``, or READY_S if that is longer."""
    have = int(ray.cluster_resources().get(NPU, 0))
    if count > have:
        raise UsageError(
            f"--engines {count}: the cluster has {have} NPUs; start its nodes with --resources='{{\"{NPU}\": 1}}' "
            "where Ray does not find them"
        )
    remote: Any = ray.remote  # its types know no actors
    actors = [remote(resources={NPU: 1}, num_cpus=0, max_concurrency=4)(Engine).remote(settings) for _ in range(count)]
    try:
        waiting = [actor.url.remote() for actor in actors]
        yield tuple(ray.get(waiting, timeout=max(patience_s, READY_S)))
    finally:
        with contextlib.suppress(Exception):  # the cluster may be gone, and they with it
            ray.get([actor.end.remote() for actor in actors], timeout=60)
