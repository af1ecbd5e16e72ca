# SPDX-License-Identifier: Apache-2.0
"""Which service processes are alive. Each holds a lock on a file of its own; the kernel drops it when it dies.

So the steps of a killed process are free at once, without a lease that must run out. It holds among all processes that
share the directory on one machine, in containers too, but not over a network file system.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path


class Processes:
    """``name`` is this process's, unique among all that ever used the directory."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.name = f"{os.getpid()}-{secrets.token_hex(6)}"
        # Made and locked under a name that `dead` does not look at: nobody may see it without its lock.
        hidden = folder / f".{self.name}"
        self._file = hidden.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        hidden.rename(folder / self.name)

    def close(self) -> None:
        (self._folder / self.name).unlink(missing_ok=True)
        self._file.close()

    def alive(self, name: str) -> bool:
        if name == self.name:
            return True
        try:
            with (self._folder / name).open("r") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        (self._folder / name).unlink(missing_ok=True)
        return False
