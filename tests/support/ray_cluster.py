# SPDX-License-Identifier: Apache-2.0
"""A real Ray cluster on this machine: a head and further nodes, each a raylet of its own that can be killed."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from free_ports import free_port
from tests.support.paths import python_of
from tests.support.processes import child_environment
from tests.support.wait import WAIT_S

RAY = python_of("corpus").with_name("ray")
# An address of the loopback network for each node: Ray tells nodes apart by their addresses.
HEAD, NODE = "127.0.0.11", "127.0.0.{0}"
FIRST = 12
STARTED = "Ray runtime started."
# Ray gives a node 30 s to meet the head, whatever else the machine does.
GAVE_UP = "timed out during startup"
OBJECT_STORE = 80_000_000  # bytes, a little above Ray's least


class RayCluster:
    """``nodes`` are the further nodes by number, each with one core, as the head has ``head_cpus``. ``end`` removes
    everything."""

    def __init__(self, nodes: int = 2, head_cpus: int = 1, resources: str = "{}", **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ray-"))
        self.port = free_port()
        self.address = f"{HEAD}:{self.port}"
        self._head_cpus, self._resources = head_cpus, resources
        # Who talks to the cluster needs its token.
        own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
        self.environment = own | settings
        self.head = self._start_head()
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        for number in range(nodes):
            self.start_node(number)

    def start_node(self, number: int) -> None:
        """One after the other: two that start at the same time choose the same ports."""
        words = (f"--node-ip-address={NODE.format(FIRST + number)}", f"--address={self.address}", "--num-cpus=1")
        self.nodes[number] = self._started(f"node-{number}", *words)

    def kill_node(self, number: int) -> None:
        """As when a machine loses its power: the raylet and all its workers at once."""
        self._kill(self.nodes.pop(number))

    def restart_head(self) -> None:
        """The head and what it knew are gone; a new one has its address. Nodes of the old one end by themselves."""
        self._kill(self.head)
        for number in list(self.nodes):
            self.kill_node(number)
        self.head = self._start_head()

    def processes(self, number: int) -> list[int]:
        """All processes of a node."""
        return _session(self.nodes[number].pid)

    def end(self) -> None:
        for process in (self.head, *self.nodes.values()):
            self._kill(process)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start_head(self) -> subprocess.Popen[bytes]:
        return self._started(
            "head",
            "--head",
            f"--node-ip-address={HEAD}",
            f"--port={self.port}",
            f"--num-cpus={self._head_cpus}",
            f"--resources={self._resources}",
            "--include-dashboard=false",
        )

    def _started(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """A node that runs; one that Ray gave up is started again, as a site would."""
        for _ in range(3):
            process, deadline = self._start(name, *words), time.monotonic() + WAIT_S
            while STARTED not in self._log(name) and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.2)
            if STARTED in self._log(name):
                return process
            self._kill(process)
            if GAVE_UP not in self._log(name):
                break
        raise AssertionError(self._log(name)[-3000:])

    def _log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def _start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [
                    str(RAY),
                    "start",
                    "--block",
                    f"--object-store-memory={OBJECT_STORE}",
                    "--disable-usage-stats",
                    *([f"--temp-dir={self.folder}/{name}"] if name == "head" else []),
                    *words,
                ],
                env=child_environment("PARSER_", "VLM_") | self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        """All processes of its session, workers of Ray and their children included."""
        for pid in _session(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def _session(leader: int) -> list[int]:
    """The processes of a session."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                if os.getsid(int(folder.name)) == leader:
                    found.append(int(folder.name))
    return found
