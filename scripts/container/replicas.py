# SPDX-License-Identifier: Apache-2.0
"""The replicas of the VLM server in one container: how many, on which ports, on which dies and cores."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

DEVICE = re.compile(r"^davinci(\d+)$")


class ReplicaError(Exception):
    """The settings ask for replicas that this container cannot hold; the message says what to change."""


def dies(devices: Path = Path("/dev")) -> list[int]:
    """Numbers of the dies whose device files are mounted, ascending; inside the container they count from 0."""
    found = (DEVICE.match(path.name) for path in devices.iterdir())
    return sorted(int(match[1]) for match in found if match)


def count(env: Mapping[str, str], devices: Path = Path("/dev")) -> int:
    """How many replicas to run: on Ascend one for each die, on CPU VLM_REPLICAS, by default 1.

    Raises ReplicaError.
    """
    text = env.get("VLM_REPLICAS") or ""
    if text and not (text.isascii() and text.isdigit() and 1 <= int(text) <= 64):
        raise ReplicaError(f"VLM_REPLICAS is {text!r}; expected a whole number from 1 to 64")
    if env.get("HARDWARE") != "ascend":
        return int(text or 1)
    present = len(dies(devices))
    if not present:
        raise ReplicaError("no /dev/davinci* is mounted; NPU_IDS must name dies of this node (npu-smi info)")
    if text and int(text) > present:
        raise ReplicaError(f"VLM_REPLICAS is {text}, but NPU_IDS gives {present} dies; expected at most one for each die")
    return int(text or present)


def port(env: Mapping[str, str], index: int) -> int:
    """Port of a replica: counted from VLM_REPLICA_PORT behind the balancer, VLM_PORT itself where there is none."""
    if base := env.get("VLM_REPLICA_PORT"):
        return int(base) + index
    return int(env.get("VLM_PORT") or 8000)


def urls(env: Mapping[str, str]) -> list[str]:
    """Addresses of all replicas, without a path."""
    return [f"http://127.0.0.1:{port(env, index)}" for index in range(int(env["VLM_REPLICAS"]))]


def cores(available: Sequence[int], replicas: int, index: int) -> list[int]:
    """The replica's share of the cores: neighbours, so that a share lies in one memory node where it can.

    With fewer cores than replicas they share.
    """
    available = sorted(available)
    if len(available) < replicas:
        return [available[index % len(available)]]
    size, rest = divmod(len(available), replicas)
    begin = index * size + min(index, rest)
    return available[begin:begin + size + (index < rest)]


def environment(env: Mapping[str, str], index: int, devices: Path = Path("/dev")) -> dict[str, str]:
    """What a replica's process gets besides the container's environment: its address, its die, its cache's size.

    How many threads it runs follows from the cores that it is bound to.
    """
    replicas = int(env.get("VLM_REPLICAS") or 1)
    own = {"VLM_PORT": str(port(env, index))}
    if env.get("VLM_REPLICA_PORT"):
        own["VLM_HOST"] = "127.0.0.1"
    if env.get("HARDWARE") == "ascend":
        # A single mounted die is number 0 already, and CANN is happier without the variable.
        if len(dies(devices)) > 1:
            own["ASCEND_RT_VISIBLE_DEVICES"] = str(index)
    elif replicas > 1 and not env.get("VLLM_CPU_KVCACHE_SPACE"):
        # GiB. The launcher derives it from the memory of the container, which is all replicas' together.
        own["VLLM_CPU_KVCACHE_SPACE"] = "1"
    return own
