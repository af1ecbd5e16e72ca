# SPDX-License-Identifier: Apache-2.0
"""The keys that sign addresses of results: ``links.key`` signs, those before it verify what they signed.

A retired key lies beside it as ``links.key.until-<seconds since the epoch>-<random>``. It verifies addresses that
expire until then and no others, so whoever finds an old key later can make no address with it. All parsers over one
place look at the files for each address (in a bucket every few seconds); a rotation needs no restart.
"""

from __future__ import annotations

import math
import re
import secrets
import time

from docparser.jobs.storage.small_files import SmallFiles

FILE = "links.key"
RETIRED = re.compile(re.escape(FILE) + r"\.until-(\d{1,12})-[0-9a-f]+")
KEY_BYTES = 32


class LinkKeys:
    """Methods raise OSError or StorageUnavailable if the files cannot be used."""

    def __init__(self, files: SmallFiles) -> None:
        self._files = files

    def newest(self) -> bytes:
        """The key that signs, made by whichever process comes first."""
        while (key := self._files.read(FILE)) is None:
            self._files.create(FILE, secrets.token_bytes(KEY_BYTES))
        return key

    def all(self) -> list[tuple[bytes, float]]:
        """Each key with the latest expiry, in seconds since the epoch, of an address that it verifies."""
        keys: list[tuple[bytes, float]] = [(self.newest(), math.inf)]
        for name, until in self._retired():
            if until >= time.time() and (key := self._files.read(name)) is not None:
                keys.append((key, until))
        return keys

    def rotate(self, lifetime_s: float) -> int:
        """Make a new key; the old one verifies for ``lifetime_s`` more seconds. Returns the end of that time.

        Killed between the two steps, the old key is there twice, which harms nothing.
        """
        until = math.ceil(time.time() + lifetime_s)
        self._files.replace(f"{FILE}.until-{until}-{secrets.token_hex(4)}", self.newest())
        self._files.replace(FILE, secrets.token_bytes(KEY_BYTES))
        self.forget(before=time.time())
        return until

    def forget(self, before: float = math.inf) -> int:
        """Remove retired keys whose time ended ``before``; by default all of them. Returns how many."""
        over = [name for name, until in self._retired() if until < before]
        for name in over:
            self._files.remove(name)
        return len(over)

    def _retired(self) -> list[tuple[str, int]]:
        matches = [(name, RETIRED.fullmatch(name)) for name in self._files.names(f"{FILE}.until-")]
        return [(name, int(match[1])) for name, match in matches if match]
