# SPDX-License-Identifier: Apache-2.0
"""Counts the attempts of parts. A part that ends its reading process time and again is set aside."""

from __future__ import annotations

import uuid
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

DEATHS = 2  # of processes that had the part; no third process gets it


class Attempts:
    """Lives in a process of its own beside the driver, for one run."""

    def __init__(self) -> None:
        self._begun: dict[str, set[str]] = {}

    def begin(self, part: str, attempt: str) -> bool:
        """Whether a process may begin a part. It then either finishes the part or dies with it. The caller names each
        ``attempt``, so that a call which Ray repeats counts once."""
        attempts = self._begun.setdefault(part, set())
        if attempt not in attempts and len(attempts) >= DEATHS:
            return False
        attempts.add(attempt)
        return True

    def end(self, part: str) -> None:
        self._begun.pop(part, None)


class Counted:
    """The actor's handle in other processes."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def begin(self, part: str) -> bool:
        return bool(ray.get(self._actor.begin.remote(part, uuid.uuid4().hex)))

    def end(self, part: str) -> None:
        self._actor.end.remote(part)


def start() -> Counted:
    # On the driver's node, because it must not go away with another node.
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    remote: Any = ray.remote  # its types know no actors
    options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": here}
    return Counted(remote(**options)(Attempts).remote())
