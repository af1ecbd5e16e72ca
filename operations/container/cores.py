# SPDX-License-Identifier: Apache-2.0
"""Which cores a replica runs on (decision 0413).

An A3 server has up to 640 cores in several memory nodes. A replica that is bound to some of them keeps its memory near
and sizes its thread pools by them. Threads and child processes inherit the binding.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import atlas
import declared_settings
import npu_smi
import ranges
from container import replicas
from tool_errors import UsageError

ONLINE = Path("/sys/devices/system/cpu/online")


def share(available: Sequence[int], parts: int, part: int) -> list[int]:
    """One of `parts` shares of the cores. Its numbers are consecutive, so they mostly lie in one memory node.

    Where there are fewer cores than parts, several parts share a core.
    """
    available = sorted(available)
    if len(available) < parts:
        return [available[part % len(available)]]
    size, rest = divmod(len(available), parts)
    begin = part * size + min(part, rest)
    return available[begin : begin + size + (part < rest)]


def of_machine(online: Path) -> int:
    """How many cores the machine has, regardless of this process's own."""
    try:
        return len(ranges.numbers(online.read_text().strip()))
    except (OSError, ValueError):
        return os.cpu_count() or 1


def topology() -> str:
    """What `npu-smi info -t topo` prints, an empty text where it does not run."""
    answer = npu_smi.ask("info", "-t", "topo")
    return "" if answer.status is None else answer.text


def near(die: int, near_dies: Mapping[int, Sequence[int]], available: Sequence[int]) -> list[int] | None:
    """The die's share of the cores near it; dies that name the same cores divide them. None if npu-smi names no cores
    that this container may use."""
    if die not in near_dies:
        return None
    same = sorted(number for number, cores in near_dies.items() if set(cores) == set(near_dies[die]))
    usable = sorted(set(near_dies[die]) & set(available))
    return share(usable, len(same), same.index(die)) if usable else None


def list_of(env: Mapping[str, str], place: int, devices: Path) -> int:
    """The place of a die's list (on CPU: a core set's) in VLM_CORES, from 0. A left-out die (NPU_MISSING) has a list
    too, so that the dies behind it keep theirs."""
    if env.get("HARDWARE") != "ascend":
        return place
    there = npu_smi.device_numbers(devices)
    gone = ranges.numbers(env["NPU_MISSING"]) if env.get("NPU_MISSING") else []
    return sorted({*there, *gone}).index(there[place])


def chosen(text: str, which: int, available: Sequence[int]) -> list[int]:
    """The cores of one list of VLM_CORES; `which` counts from 0.

    `text` holds one list a die, with semicolons between them: `0-39;40-79`. Raises UsageError.
    """
    lists = text.split(";")
    try:
        wanted = ranges.numbers(lists[which])
    except (ValueError, IndexError):
        wanted = []
    if not wanted or not set(wanted) <= set(available):
        raise UsageError(
            f"VLM_CORES is {text!r}; expected `auto`, `none`, or one list of cores for each die, with semicolons "
            f"between them, like 0-39;40-79, of cores that the container may use (list {which + 1} is wrong)"
        )
    return wanted


def check(env: Mapping[str, str], available: Sequence[int], devices: Path = Path("/dev")) -> None:
    """Raises UsageError for lists in VLM_CORES that lack a die, or name cores that the container may not use. Here
    VLM_REPLICAS is what `replicas.count` has found."""
    if (mode := declared_settings.unchecked(env, "VLM_CORES")) not in ("auto", "none"):
        for place in range(replicas.places(env)):
            chosen(mode, list_of(env, place, devices), available)


def of_replica(
    env: Mapping[str, str],
    index: int,
    available: Sequence[int],
    devices: Path = Path("/dev"),
    online: Path = ONLINE,
) -> tuple[list[int], str]:
    """The cores of a replica, and the reason; all available cores if replicas are not bound.

    Raises UsageError.
    """
    mode = declared_settings.unchecked(env, "VLM_CORES")
    total, place = replicas.places(env), replicas.place(env, index)
    if mode == "none":
        return sorted(available), "VLM_CORES=none"
    if mode != "auto":
        return chosen(mode, list_of(env, place, devices), available), "VLM_CORES"
    if env.get("HARDWARE") != "ascend":
        part = share(available, total, place)
        return part, "a share" if total > 1 else "the only core set"
    dies = npu_smi.device_numbers(devices)
    die = dies[place]
    # A server's dies are about equally far from all cores, so shares follow the order of the dies' numbers. A container
    # takes only the shares of its own dies, so that two containers on one server do not meet. If a cpuset or
    # Kubernetes' CPU manager gave it no more cores than these shares have, it divides its own cores.
    of_server = max(atlas.of_soc(env.get("SOC_VERSION") or atlas.DEFAULT.soc).dies, dies[-1] + 1)
    machine = of_machine(online)
    if own := len(available) < machine and len(available) * of_server <= machine * len(dies):
        part, why = share(available, len(dies), place), "share of the container's own cores"
    else:
        part, why = share(available, of_server, die), f"share of die {die}"
    known = npu_smi.affinity(topology())
    # The topology may number cards by their slots. If it lacks one of our dies, its numbers are not N of /dev/davinciN.
    if known.keys() >= {*dies} and (cores := near(die, known, available)) and (not own or len(cores) >= len(part)):
        return cores, f"near die {die} (npu-smi info -t topo)"
    return part, why
