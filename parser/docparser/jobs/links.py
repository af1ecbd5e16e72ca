# SPDX-License-Identifier: Apache-2.0
"""Addresses of results: they work without a key, cannot be guessed, and expire (PARSER_RESULT_URL_HOURS).

``links.key`` signs them. Earlier keys still verify the addresses that they signed.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import secrets
import time

from docparser.errors import LinkRefused
from docparser.jobs.storage.files import SmallFiles

FILE = "links.key"
RETIRED = re.compile(re.escape(FILE) + r"\.until-(\d{1,12})-[0-9a-f]+")
KEY_BYTES = 32
PREFIX = "/api/v2/ocr/results"
PERMISSION = re.compile(r"(\d{10,12})-([0-9a-f]{40})")
STEP_S = 600  # addresses stay the same for a while, so that browsers can cache pictures


class LinkKeys:
    """Methods raise OSError or StorageUnavailable if the files cannot be used."""

    def __init__(self, files: SmallFiles) -> None:
        self._files = files

    def newest(self) -> bytes:
        """The key that signs. The first process makes it."""
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

        If the process is killed between the two steps, the old key is there twice, which is harmless.
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


class Links:
    def __init__(self, files: SmallFiles, lifetime_s: float) -> None:
        self._keys = LinkKeys(files)
        self._keys.newest()  # made at start, so that a place that cannot be written is noticed then
        self._lifetime_s = lifetime_s

    def path(self, job_id: str, name: str) -> str:
        """The address of a result below the service's root. ``name`` is ``result.jsonl``, or like
        ``pages/3/picture.jpg``."""
        expires = (int(time.time() + self._lifetime_s) // STEP_S + 1) * STEP_S
        return self.path_with(f"{expires}-{sign(self._keys.newest(), job_id, expires)}", job_id, name)

    @staticmethod
    def path_with(permission: str, job_id: str, name: str) -> str:
        """The same with a permission that was given before: no address inside a result may outlive the result's own."""
        return f"{PREFIX}/{job_id}/{permission}/{name}"

    def check(self, job_id: str, permission: str) -> int:
        """The seconds that the permission has left. Raises LinkRefused."""
        match = PERMISSION.fullmatch(permission)
        if not match or not self._signed(match[2], job_id, int(match[1])):
            raise LinkRefused(
                "This service did not make this address, or it was changed; ask for the job's state to get a new one."
            )
        left = int(match[1]) - time.time()
        if left < 0:
            raise LinkRefused("This address has expired; ask for the job's state to get a new one.")
        return int(left)

    def _signed(self, signature: str, job_id: str, expires: int) -> bool:
        # All keys are compared, so that the time does not tell which one fits.
        fits = [
            hmac.compare_digest(signature, sign(key, job_id, expires)) and expires <= until
            for key, until in self._keys.all()
        ]
        return any(fits)


def sign(key: bytes, job_id: str, expires: int) -> str:
    return hmac.new(key, f"{job_id}:{expires}".encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:40]
