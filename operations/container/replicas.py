# SPDX-License-Identifier: Apache-2.0
"""The replicas of the VLM server in one container: how many, on which ports, on which dies, and which of them serve."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import declared_settings
import npu_smi
from container import folders
from tool_errors import UsageError

HALVES = ("first", "second")


def per_die(env: Mapping[str, str]) -> int:
    """VLM_REPLICAS_PER_DIE: replicas that share a die, on CPU a core set; 1 by default. Raises WrongValue."""
    return declared_settings.whole(env, "VLM_REPLICAS_PER_DIE")


def count(env: Mapping[str, str], devices: Path = Path("/dev")) -> int:
    """How many replicas to run: VLM_REPLICAS_PER_DIE times VLM_REPLICAS, which is by default the number of dies on
    Ascend and 1 on CPU. If NPU_MISSING names dies, the present ones are enough.

    Raises UsageError.
    """
    wanted = declared_settings.whole(env, "VLM_REPLICAS")
    if env.get("HARDWARE") == "ascend":
        present = len(npu_smi.device_numbers(devices))
        if not present:
            raise UsageError(
                "no /dev/davinci* is mounted; NPU_IDS must name dies of this node (npu-smi info); in Kubernetes the "
                "device plugin brings them (docs/kubernetes.md, Ascend)"
            )
        # A die that scripts/select_npus.sh left out costs only its own replicas.
        if not env.get("VLM_REPLICAS") or (env.get("NPU_MISSING") and wanted > present):
            wanted = present
        if wanted > present:
            raise UsageError(
                f"VLM_REPLICAS is {wanted}, but NPU_IDS gives {present} dies; expected at most the number of dies "
                "(VLM_REPLICAS_PER_DIE sets how many replicas share one)"
            )
    return declared_settings.replicas(env, wanted)


def place(env: Mapping[str, str], index: int) -> int:
    """Which of the container's dies (on CPU: core sets) a replica runs on, counted from 0."""
    return index // per_die(env)


def places(env: Mapping[str, str]) -> int:
    """How many dies (on CPU: core sets) are used. Here VLM_REPLICAS is what `count` has found."""
    return int(env.get("VLM_REPLICAS") or 1) // per_die(env)


def port(env: Mapping[str, str], index: int) -> int:
    """A replica's port: counted from VLM_REPLICA_PORT behind the balancer, VLM_PORT itself without one."""
    if base := env.get("VLM_REPLICA_PORT"):
        return int(base) + index
    return declared_settings.port(env, "VLM_PORT")


def urls(env: Mapping[str, str]) -> list[str]:
    """Addresses of all replicas, without a path."""
    return [f"http://127.0.0.1:{port(env, index)}" for index in range(int(env["VLM_REPLICAS"]))]


def environment(env: Mapping[str, str], index: int, devices: Path = Path("/dev")) -> dict[str, str]:
    """The variables of a replica's process besides the container's: its address and its die."""
    own = {"VLM_PORT": str(port(env, index))}
    if env.get("VLM_REPLICA_PORT"):
        own["VLM_HOST"] = "127.0.0.1"
    # A single mounted die is number 0 already and needs no variable.
    if env.get("HARDWARE") == "ascend" and len(npu_smi.device_numbers(devices)) > 1:
        own["ASCEND_RT_VISIBLE_DEVICES"] = str(place(env, index))
    return own


def half_file(env: Mapping[str, str]) -> Path:
    """The file of the choice between halves. It lies on the container's volume, so that the choice outlives the
    container; `container.take_half` writes it."""
    return folders.state(env) / "half"


def chosen_half(env: Mapping[str, str]) -> str:
    """The half of its dies that this container uses, while a container of another version has the other half (decision
    0415): the one that was chosen last, else VLM_HALF. `first`, `second`, or an empty text for all dies."""
    try:
        text = half_file(env).read_text().strip()
    except FileNotFoundError:
        text = env.get("VLM_HALF") or ""
    return text if text in HALVES else ""


def serves(env: Mapping[str, str], index: int) -> bool:
    """Whether a replica belongs to the chosen half. The first half has the middle one of an odd number of dies.

    Replicas that share a die stay together. Here VLM_REPLICAS is what `count` has found.
    """
    half = chosen_half(env)
    in_first = place(env, index) < (places(env) + 1) // 2
    return not half or in_first == (half == "first")


def wait_until_chosen(env: Mapping[str, str], index: int) -> None:
    """Return when the replica belongs to the chosen half. Until then it waits without a server."""
    if not serves(env, index):
        print(f"replica {index} waits: another version uses its die (scripts/upgrade.sh)", flush=True)
    while not serves(env, index):
        time.sleep(1)
