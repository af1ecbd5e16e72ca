# SPDX-License-Identifier: Apache-2.0
"""The half of its dies that this container uses, while a container of another version has the other half (decision
0415).

The choice lies on the container's volume, so that it outlives the container; `container.take_half` makes it. A replica
of the other half waits, without a server, until it is chosen again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from container import folders, replicas

HALVES = ("first", "second")


def file(env: Mapping[str, str]) -> Path:
    return folders.state(env) / "half"


def chosen(env: Mapping[str, str]) -> str:
    """The half that was chosen last, else VLM_HALF: `first`, `second`, or an empty text for all dies."""
    try:
        text = file(env).read_text().strip()
    except FileNotFoundError:
        text = env.get("VLM_HALF") or ""
    return text if text in HALVES else ""


def serves(env: Mapping[str, str], index: int) -> bool:
    """Whether a replica belongs to the chosen half. The first half has the middle one of an odd number of dies.

    Replicas that share a die stay together. Here VLM_REPLICAS is what `replicas.count` has found.
    """
    half = chosen(env)
    in_first = replicas.place(env, index) < (replicas.places(env) + 1) // 2
    return not half or in_first == (half == "first")


def wait_until_chosen(env: Mapping[str, str], index: int) -> None:
    """Return when the replica belongs to the chosen half."""
    if not serves(env, index):
        print(f"replica {index} waits: another version uses its die (scripts/upgrade.sh)", flush=True)
    while not serves(env, index):
        time.sleep(1)
