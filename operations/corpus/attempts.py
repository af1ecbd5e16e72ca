# SPDX-License-Identifier: Apache-2.0
"""Which parts are at work: a part that ends the process that reads it, time and again, is set aside."""

from __future__ import annotations

from typing import Any

import ray

DEATHS = 2  # of processes that had the part; then it is not given to a third


class Attempts:
    """Lives in a process of its own on the head, for one run."""

    def __init__(self) -> None:
        self._begun: dict[str, int] = {}

    def begin(self, part: str) -> bool:
        """Whether a process may begin with a part. Each part that a process begins, it ends, or it dies with it."""
        if self._begun.get(part, 0) >= DEATHS:
            return False
        self._begun[part] = self._begun.get(part, 0) + 1
        return True

    def end(self, part: str) -> None:
        self._begun.pop(part, None)


def start() -> Any:
    """The actor's handle."""
    return ray.remote(num_cpus=0, max_restarts=-1)(Attempts).remote()
