# SPDX-License-Identifier: Apache-2.0
"""The pytest processes of a run, started from several threads and interrupted together."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterable, Mapping
from typing import BinaryIO

from bundle.paths import ROOT

# How long the fixtures of an interrupted group may take to stop their services.
STOP_SECONDS = 120
# pytest's own status of a run that was interrupted.
INTERRUPTED = 2


class PytestRuns:
    """Runs pytest until it is told to end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[subprocess.Popen[bytes]] = []
        self._ended = False

    @property
    def ended(self) -> bool:
        """Whether no further pytest will be started."""
        return self._ended

    def run(
        self,
        command: list[str],
        environment: Mapping[str, str],
        packages: Iterable[str],
        output: BinaryIO | None = None,
    ) -> int:
        """Run one pytest and return its status. Its tests may start programs of `packages` (tests/conftest.py).
        `output` gets what it prints, else the terminal does."""
        env = {key: value for key, value in environment.items() if key != "PYTHONPATH"}
        env["TEST_PACKAGES"] = " ".join(packages)
        with self._lock:
            if self._ended:
                return INTERRUPTED
            process = subprocess.Popen(
                command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output and subprocess.STDOUT
            )
            self._running.append(process)
        try:
            return process.wait()
        finally:
            with self._lock:
                self._running.remove(process)

    def end(self) -> None:
        """Start no more and interrupt those that run: their fixtures stop what they started."""
        with self._lock:
            self._ended = True
            running = list(self._running)
        for process in running:
            # SIGTERM would end pytest at once, and leave the services behind.
            process.send_signal(signal.SIGINT)
        for process in running:
            try:
                process.wait(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
