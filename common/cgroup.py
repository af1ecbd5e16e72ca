# SPDX-License-Identifier: Apache-2.0
"""python -m cgroup: how many processes of this container the kernel has ended because its memory limit was reached.

Counted from the container's start. scripts/status.sh asks for it, and the services have it among their metrics.
"""

from __future__ import annotations

import re
from pathlib import Path

# Of cgroup version 2 and of version 1, as a container sees its own.
FILES = ("memory.events", "memory/memory.oom_control")
OOM_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


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
