# SPDX-License-Identifier: Apache-2.0
"""Which service processes are alive. Each holds a lock on its own file, which the kernel releases when it dies.

So the steps of a killed process are free at once; no lease has to expire. This works among all processes that share the
directory on one machine, in containers too, but not over a network file system.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO


class Processes:
    """``name`` is the name of this process, unique among all that ever used the directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._file = self._mark()

    def _mark(self) -> TextIO:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Created and locked under a hidden name, so that no process sees the file without its lock.
        hidden = self._folder / f".{self.name}"
        file = os.fdopen(os.open(hidden, os.O_WRONLY | os.O_CREAT, 0o600), "w")
        fcntl.flock(file, fcntl.LOCK_EX)
        hidden.rename(self._folder / self.name)
        return file

    def renew(self) -> None:
        """Make the mark again if it is gone: other processes would take this one for dead."""
        try:
            there = os.path.samestat((self._folder / self.name).stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            there = False
        if not there:
            old, self._file = self._file, self._mark()
            old.close()

    def close(self) -> None:
        (self._folder / self.name).unlink(missing_ok=True)
        self._file.close()

    def dead(self, names: Iterable[str]) -> list[str]:
        """Those of ``names`` that have ended."""
        return [name for name in names if not self._alive(name)]

    def _alive(self, name: str) -> bool:
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
