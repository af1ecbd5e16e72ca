# SPDX-License-Identifier: Apache-2.0
"""Addresses of results: they work without a key, cannot be guessed, and expire.

The SDKs fetch results without their token (facts of the hosted API: pre-signed addresses), so the address itself is the
permission: an expiry and an HMAC-SHA256 of it and the job's id, under a key that only the data directory holds.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import time
from pathlib import Path

from docparser.jobs.errors import LinkExpired

PREFIX = "/api/v2/ocr/results"
PERMISSION = re.compile(r"(\d{10,12})-([0-9a-f]{40})")
STEP_S = 600  # addresses stay the same for a while, so that browsers can cache pictures


class Links:
    def __init__(self, root: Path, lifetime_s: float) -> None:
        self._key = _key(root / "links.key")
        self._lifetime_s = lifetime_s

    def path(self, job_id: str, name: str) -> str:
        """The address below the service's root of what ``name`` says: ``result.jsonl``, ``pages/3/picture.jpg``."""
        expires = (int(time.time() + self._lifetime_s) // STEP_S + 1) * STEP_S
        return f"{PREFIX}/{job_id}/{expires}-{self._sign(job_id, expires)}/{name}"

    def check(self, job_id: str, permission: str) -> None:
        """Raises LinkExpired."""
        match = PERMISSION.fullmatch(permission)
        if not match or not hmac.compare_digest(match[2], self._sign(job_id, int(match[1]))):
            raise LinkExpired("This is not an address of a result that was made here.")
        if int(match[1]) < time.time():
            raise LinkExpired("This address has expired; ask for the job's state to get a new one.")

    def _sign(self, job_id: str, expires: int) -> str:
        return hmac.new(self._key, f"{job_id}:{expires}".encode(), hashlib.sha256).hexdigest()[:40]


def _key(path: Path) -> bytes:
    """The key, made by whichever process comes first."""
    new = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    if not path.exists():
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(new, path)
        except FileExistsError:
            pass
        finally:
            new.unlink()
    return path.read_bytes()
