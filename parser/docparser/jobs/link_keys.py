# SPDX-License-Identifier: Apache-2.0
"""The keys that sign addresses of results: ``links.key`` signs, those before it verify what they signed.

A retired key lies beside it as ``links.key.until-<seconds since the epoch>-<random>``. It verifies addresses that
expire until then and no others, so whoever finds an old key later can make no address with it. All parsers over one
data directory look at the files for each address; a rotation needs no restart.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import secrets
import time
from pathlib import Path

FILE = "links.key"
RETIRED = re.compile(re.escape(FILE) + r"\.until-(\d{1,12})-[0-9a-f]+")
KEY_BYTES = 32


class LinkKeys:
    """Methods raise OSError if ``root`` cannot be used."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / FILE

    def newest(self) -> bytes:
        """The key that signs, made by whichever process comes first."""
        with contextlib.suppress(FileNotFoundError):
            return self._path.read_bytes()
        new = self._written()
        try:
            os.link(new, self._path)
        except FileExistsError:
            pass
        finally:
            new.unlink()
        return self._path.read_bytes()

    def all(self) -> list[tuple[bytes, float]]:
        """Each key with the latest expiry, in seconds since the epoch, of an address that it verifies."""
        keys: list[tuple[bytes, float]] = [(self.newest(), math.inf)]
        for path, until in self._retired():
            if until >= time.time():
                with contextlib.suppress(FileNotFoundError):
                    keys.append((path.read_bytes(), until))
        return keys

    def rotate(self, lifetime_s: float) -> int:
        """Make a new key; the old one verifies for ``lifetime_s`` more seconds. Returns the end of that time.

        Killed between the two steps, the old key is there twice, which harms nothing.
        """
        until = math.ceil(time.time() + lifetime_s)
        old = self.newest()
        new = self._written()
        retired = self._written(old)
        retired.replace(self._root / f"{FILE}.until-{until}-{secrets.token_hex(4)}")
        new.replace(self._path)
        self.forget(before=time.time())
        return until

    def forget(self, before: float = math.inf) -> int:
        """Remove retired keys whose time ended ``before``; by default all of them. Returns how many."""
        over = [path for path, until in self._retired() if until < before]
        for path in over:
            path.unlink(missing_ok=True)
        return len(over)

    def _retired(self) -> list[tuple[Path, int]]:
        matches = [(path, RETIRED.fullmatch(path.name)) for path in self._root.glob(f"{FILE}.until-*")]
        return [(path, int(match[1])) for path, match in matches if match]

    def _written(self, key: bytes | None = None) -> Path:
        """A file beside the others with a key, on the disk and for this user only."""
        path = self._root / f".{FILE}-{secrets.token_hex(8)}"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key or secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        return path
