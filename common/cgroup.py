# SPDX-License-Identifier: Apache-2.0
"""The memory and the cores of this container, and how many processes the kernel has ended at its memory limit.

``python -m cgroup`` prints that number, counted from the container's start, for scripts/status.sh. The services have it
among their metrics.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

# Of cgroup version 2 and of version 1, as a container sees its own.
FILES = ("memory.events", "memory/memory.oom_control")
LIMITS = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")
QUOTAS = (("sys/fs/cgroup/cpu.max",), tuple(f"sys/fs/cgroup/cpu/cpu.cfs_{name}_us" for name in ("quota", "period")))
TOTAL = re.compile(r"^MemTotal:\s+(\d+) kB$", re.MULTILINE)
OOM_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def memory(root: Path = Path("/")) -> int | None:
    """Bytes that this container may use or this machine has, whichever is less; None if the kernel does not say."""
    sizes = [int(text) for text in (_text(root / name) for name in LIMITS) if text.isdigit()]
    sizes += [int(kib) << 10 for kib in TOTAL.findall(_text(root / "proc/meminfo"))]
    return min(sizes, default=None)


def cores(root: Path = Path("/")) -> int:
    """The number of cores that this process may run on, or whose time this container may use (its CPU quota), whichever
    is less; at least one."""
    found = len(os.sched_getaffinity(0))
    for files in QUOTAS:
        words = " ".join(_text(root / name) for name in files).split()  # no quota: "max" or -1, or no file
        if len(words) == 2 and all(word.isdigit() for word in words):
            found = min(found, max(1, int(words[0]) // int(words[1])))
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def oom_kills(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """None where the kernel does not say."""
    for name in FILES:
        try:
            if found := OOM_KILLS.search((root / name).read_text()):
                return int(found[1])
        except OSError:
            continue
    return None


if __name__ == "__main__":
    print(oom_kills())
