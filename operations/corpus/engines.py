# SPDX-License-Identifier: Apache-2.0
"""VLM servers that a run starts itself: one for each NPU that it asks the cluster for, ended with the run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ray
import ray.exceptions
import ray.util

import declared_settings
import stacks
from bundle.paths import ENVS_DIR, ROOT, RUN_DIR, VALUES
from declared_settings.services import HARDWARE_AND_WEIGHTS, VLM_SERVER
from free_ports import free_port
from health_probe import probe
from tool_errors import EnvironmentSetupError, ServiceError, UsageError

NPU = "NPU"  # Ray's name of the resource; Ray sets ASCEND_RT_VISIBLE_DEVICES for its holders
READY_S = 900.0
AGAIN_S = 3.0
START_S = 60.0  # of an actor
# Ray's own, and the one thread that it grants to an actor without cores.
DROPPED = ("RAY_", "OMP_NUM_THREADS", "PYTHONPATH")
PASSED_ON = {setting.name for group in (HARDWARE_AND_WEIGHTS, VLM_SERVER) for setting in group}
ALONE = {"VLM_REPLICAS": "1", "VLM_REPLICAS_PER_DIE": "1"}  # each has a die of its own


def settings() -> dict[str, str]:
    """The launcher's settings: the environment, then .env. A node's own win, even HARDWARE, because the driver's
    machine may be of another kind. Raises UsageError for a value that no server would take."""
    passed = {name: value for name, value in VALUES.items() if name in PASSED_ON and value}
    declared_settings.refuse_mistakes(passed)
    models = (ROOT / declared_settings.text(VALUES, "MODELS_DIR")).resolve()
    return {**passed, "HARDWARE": "ascend", "MODELS_DIR": str(models)}


class Engine:
    """An actor on the node that has the NPU. The server is started again when it ends."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._host = ray.util.get_node_ip_address()
        self._port = free_port()
        self._env = {k: value for k, value in {**settings, **os.environ}.items() if not k.startswith(DROPPED)}
        self._env |= {"VLM_HOST": self._host, "VLM_PORT": str(self._port), **ALONE}
        self._log = RUN_DIR / "logs" / f"corpus-vlm-{self._port}.log"
        self._ending = threading.Event()
        self._server: subprocess.Popen[bytes] | None = None

    def serve(self, patience_s: float) -> str:
        """Start the server. Its API root, once it is healthy. Raises EnvironmentSetupError, ServiceError."""
        deadline = time.monotonic() + patience_s
        if not self._python.exists():
            raise EnvironmentSetupError(
                f"--engines: {self._python} is missing on {self._host}; "
                f"run scripts/setup_env.sh {self._environment} there, or name another one in VLM_ENVIRONMENT"
            )
        self._server = self._start()
        threading.Thread(target=self._keep, args=[self._server], name="engine", daemon=True).start()
        while not probe(f"http://{self._host}:{self._port}/health").healthy:
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"--engines: the VLM server on {self._host} is not ready after {patience_s:.0f} s; "
                    f"its log there is {self._log}"
                )
            time.sleep(1)
        return f"http://{self._host}:{self._port}/v1"

    def end(self) -> None:
        self._ending.set()
        if self._server is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._server.pid, signal.SIGTERM)
        try:
            self._server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._server.pid, signal.SIGKILL)

    @property
    def _environment(self) -> str:
        stack = stacks.STACKS[declared_settings.choice(self._env, "STACK")]
        return self._env.get("VLM_ENVIRONMENT") or stack.environment(self._env["HARDWARE"])

    @property
    def _python(self) -> Path:
        return ENVS_DIR / self._environment / "bin/python"

    def _start(self) -> subprocess.Popen[bytes]:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as sink:
            # A group of its own: vLLM's processes are ended together.
            return subprocess.Popen(
                [str(self._python), "-m", "vlm_server"],
                env=self._env,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )

    def _keep(self, server: subprocess.Popen[bytes]) -> None:
        while not self._ending.is_set():
            server.wait()
            if not self._ending.wait(AGAIN_S):
                self._server = server = self._start()


@contextlib.contextmanager
def started(count: int, patience_s: float) -> Iterator[tuple[str, ...]]:
    """The API roots of ``count`` VLM servers. Raises UsageError where the cluster has not so many NPUs,
    EnvironmentSetupError where a node cannot start one, ServiceError for one that does not become ready within
    ``patience_s``, or READY_S if that is longer."""
    if not count:
        yield ()
        return
    have = int(ray.cluster_resources().get(NPU, 0))
    if count > have:
        raise UsageError(
            f"--engines {count}: the cluster has {have} NPUs; start its nodes with --resources='{{\"{NPU}\": 1}}' "
            "where Ray does not find them"
        )
    patience_s = max(patience_s, READY_S)
    own = settings()
    remote: Any = ray.remote  # its types know no actors
    actors = [remote(resources={NPU: 1}, num_cpus=0, max_concurrency=4)(Engine).remote(own) for _ in range(count)]
    try:
        yield _roots([actor.serve.remote(patience_s) for actor in actors], patience_s)
    finally:
        with contextlib.suppress(Exception):  # the cluster may be gone, and the actors with it
            ray.get([actor.end.remote() for actor in actors], timeout=60)


def _roots(serving: list[Any], patience_s: float) -> tuple[str, ...]:
    """Raises ServiceError where an actor was not even started."""
    try:
        return tuple(ray.get(serving, timeout=patience_s + START_S))
    except ray.exceptions.GetTimeoutError as error:
        raise ServiceError(
            f"--engines {len(serving)}: Ray has not started them all within {patience_s:.0f} s; "
            "look whether another program has NPUs of the cluster (ray status)"
        ) from error
