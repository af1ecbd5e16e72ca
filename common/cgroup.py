# SPDX-License-Identifier: Apache-2.0
"""The memory limit of this container, and how many processes the kernel has ended because it was reached.

``python -m cgroup`` prints the second, counted from the container's start: scripts/status.sh asks for it, and the
services have it among their metrics.
"""

from __future__ import annotations

import re
from pathlib import Path

# Of cgroup version 2 and of version 1, as a container sees its own.
FILES = ("memory.events", "memory/memory.oom_control")
LIMITS = ("memory.max", "memory/memory.limit_in_bytes")
OOM_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def memory_limit(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """In bytes; None without one. Version 1 says a number beyond any memory instead."""
    for name in LIMITS:
        try:
            limit = (root / name).read_text().strip()
        except OSError:
            continue
        if limit.isdigit():
            return int(limit)
    return None


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
