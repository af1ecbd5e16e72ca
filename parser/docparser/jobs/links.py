# SPDX-License-Identifier: Apache-2.0
"""Addresses of results: they work without a key, cannot be guessed, and expire (PARSER_RESULT_URL_HOURS).

The SDKs fetch results without their token, as from the hosted API. So the address itself is the permission: an expiry
and an HMAC-SHA256 of it and the job's id, under a key that only the place of the jobs holds (``link_keys``).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time

from docparser.errors import LinkExpired
from docparser.jobs.link_keys import LinkKeys
from docparser.jobs.storage.small_files import SmallFiles

PREFIX = "/api/v2/ocr/results"
PERMISSION = re.compile(r"(\d{10,12})-([0-9a-f]{40})")
STEP_S = 600  # addresses stay the same for a while, so that browsers can cache pictures


class Links:
    def __init__(self, files: SmallFiles, lifetime_s: float) -> None:
        self._keys = LinkKeys(files)
        self._keys.newest()  # made at start, so that a place that cannot be written is noticed then
        self._lifetime_s = lifetime_s

    def path(self, job_id: str, name: str) -> str:
        """The address below the service's root of what ``name`` says: ``result.jsonl``, ``pages/3/picture.jpg``."""
        expires = (int(time.time() + self._lifetime_s) // STEP_S + 1) * STEP_S
        return f"{PREFIX}/{job_id}/{expires}-{sign(self._keys.newest(), job_id, expires)}/{name}"

    def check(self, job_id: str, permission: str) -> None:
        """Raises LinkExpired."""
        match = PERMISSION.fullmatch(permission)
        if not match or not self._signed(match[2], job_id, int(match[1])):
            raise LinkExpired(
                "This service did not make this address, or it was changed; ask for the job's state to get it anew."
            )
        if int(match[1]) < time.time():
            raise LinkExpired("This address has expired; ask for the job's state to get a new one.")

    def _signed(self, signature: str, job_id: str, expires: int) -> bool:
        # All keys are compared, so the time says nothing about which one fits.
        fits = [
            hmac.compare_digest(signature, sign(key, job_id, expires)) and expires <= until
            for key, until in self._keys.all()
        ]
        return any(fits)


def sign(key: bytes, job_id: str, expires: int) -> str:
    return hmac.new(key, f"{job_id}:{expires}".encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:40]
