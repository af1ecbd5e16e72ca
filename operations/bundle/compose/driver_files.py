# SPDX-License-Identifier: Apache-2.0
"""Wait at boot until the driver has made the device files of the dies: scripts/select_npus.sh present --wait SECONDS.

/dev/davinci_manager is there as soon as the driver's module is loaded. A die's own file comes when that die has booted.
Then a service of the driver gives all files to their group; it takes up to ten minutes (`changeDavinciMode` of
host_sys_init.sh in the driver's package).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import npu_smi
from bundle.progress import say

PAUSE_SECONDS = 2.0


def wait(numbers: Sequence[int], group: int, seconds: float, root: Path = Path("/")) -> None:
    """Return when the files of these dies are there for `group` and npu-smi lists dies, or when the time is over; says
    what is lacking then."""
    deadline, said = time.monotonic() + seconds, False
    while lack := lacking(numbers, group, root):
        if time.monotonic() >= deadline:
            say(f"WARNING: waited {seconds:.0f} s for the driver: {lack}")
            return
        if not said:
            say(f"waiting up to {seconds:.0f} s for the driver: {lack}")
            said = True
        time.sleep(PAUSE_SECONDS)


def lacking(numbers: Sequence[int], group: int, root: Path = Path("/")) -> str:
    """What the driver has not done yet, in a few words; empty where nothing lacks. Without an npu-smi that may be
    run the files count."""
    for number in numbers:
        file = root / f"dev/davinci{number}"
        try:
            status = file.stat()
        except FileNotFoundError:
            return f"/dev/davinci{number} is not there"
        if not npu_smi.allows(status, group, 6):
            return f"/dev/davinci{number} belongs to the group {status.st_gid}, not {group} (ASCEND_GID)"
    answer = npu_smi.ask("info")
    found = None if answer.missing or answer.forbidden else npu_smi.trouble(answer)
    return found[0] if found else ""
