# SPDX-License-Identifier: Apache-2.0
"""Which containers run, asked for all of them at once: a call of the engine's client takes longer than a look."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any

LABEL = "tests.cluster"
ENDED = re.compile(r"Exited \((\d+)\)")
OLD_S = 1.0


class States:
    """Of the containers with the label of one cluster; `words` give it to a container."""

    def __init__(self, docker: Callable[..., Any], cluster: str) -> None:
        self._docker, self._filter = docker, f"{LABEL}={cluster}"
        self._lock = threading.Lock()
        self._at = 0.0
        self._found: dict[str, str] = {}

    @property
    def words(self) -> list[str]:
        return ["--label", self._filter]

    def ended(self, name: str) -> int | None:
        """The exit status of a container that has ended; None while it runs. What is gone ended with 137."""
        with self._lock:
            if time.monotonic() - self._at > OLD_S:
                words = ("ps", "--all", "--filter", f"label={self._filter}", "--format", "{{.Names}}\t{{.Status}}")
                self._found = dict(line.split("\t", 1) for line in self._docker(*words).stdout.splitlines())
                self._at = time.monotonic()
            said = self._found.get(name)
        if said is None:
            return 137
        ended = ENDED.match(said)
        return int(ended[1]) if ended else None

    def forget(self) -> None:
        """Something was just started: what was found before is no longer so."""
        with self._lock:
            self._at = 0.0
