# SPDX-License-Identifier: Apache-2.0
"""How many replicas of the VLM answer, of how many: lost capacity is invisible behind one address."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp

from docparser.settings import Settings

REMEMBERED_S = 5.0
TIMEOUT_S = 10.0  # the container asks every replica first, and one that hangs takes its time
# The samples stand at the begin of the page (operations/container/metrics.py).
MOST_BYTES = 64 << 10
UP = re.compile(r'^vlm_replica_up\{replica="\d+"\} ([0-9.e+]+)$', re.MULTILINE)
MISSING = re.compile(r"^vlm_dies_missing ([0-9.e+]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Replicas:
    """``missing`` counts dies that are named by NPU_IDS and were not there at the start; they are not in
    ``configured``."""

    up: int
    configured: int
    missing: int

    def as_dict(self) -> dict[str, int]:
        return {"up": self.up, "configured": self.configured, "diesMissing": self.missing}


def from_page(page: str) -> Replicas | None:
    """From the VLM container's page of metrics; None for a server without such samples (local mode, another server)."""
    found = [float(value) for value in UP.findall(page)]
    missing = MISSING.search(page)
    return Replicas(int(sum(found)), len(found), int(float(missing[1])) if missing else 0) if found else None


class ReplicaCount:
    """Asks the VLM's address for its metrics, at most every REMEMBERED_S. Belongs to one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._url = urlsplit(settings.vlm_url)._replace(path="/metrics", query="").geturl()
        self._asked = float("-inf")
        self._found: Replicas | None = None
        # The last number of replicas that was seen: when the whole container is away, none of these are up.
        self._configured: Replicas | None = None

    async def get(self) -> Replicas | None:
        """None where the VLM never said how many replicas it has."""
        if time.monotonic() - self._asked > REMEMBERED_S:
            self._found = await self._ask()
            self._asked = time.monotonic()
        return self._found

    async def _ask(self) -> Replicas | None:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
                session.get(self._url, allow_redirects=False) as response,
            ):
                page = (await response.content.read(MOST_BYTES)) if response.status == 200 else b""
        except (aiohttp.ClientError, OSError):
            page = b""
        found = from_page(page.decode("utf-8", "replace"))
        if found is not None:
            self._configured = found
            return found
        known = self._configured
        return Replicas(0, known.configured, known.missing) if known else None
