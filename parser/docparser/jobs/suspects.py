# SPDX-License-Identifier: Apache-2.0
"""Pages that the VLM went away with: most are innocent, one may end the server each time.

A page that is begun finds the VLM there (``jobs/runner``). If it is away at the end, the page is one of those that the
VLM had in work. After SUSPECT absences a page is parsed alone among its kind, so that innocent pages leave the company
of a guilty one. After ABSENCES it is given up, or one page would keep a server from all others for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from docparser.jobs.storage.queue import Claim

SUSPECT = 3
ABSENCES = 30  # as often as the service itself may end with a page (``jobs/storage/queue``)


class Suspects:
    """Belongs to one process, and forgets with it."""

    def __init__(self) -> None:
        self._absences: Counter[tuple[str, int]] = Counter()
        self._alone = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def turn(self, claim: Claim) -> AsyncIterator[None]:
        """Parse the page inside: at once, or when no other suspect is being parsed."""
        if self._absences[claim.job.id, claim.number] < SUSPECT:
            yield
            return
        async with self._alone:
            yield

    def guilty(self, claim: Claim) -> bool:
        """Count an absence; whether the page is to be given up."""
        self._absences[claim.job.id, claim.number] += 1
        if self._absences[claim.job.id, claim.number] < ABSENCES:
            return False
        self.clear(claim)
        return True

    def clear(self, claim: Claim) -> None:
        """The VLM answered for the page, or the page has ended."""
        self._absences.pop((claim.job.id, claim.number), None)

    def forget(self) -> None:
        self._absences.clear()
