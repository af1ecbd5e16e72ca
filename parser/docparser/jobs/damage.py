# SPDX-License-Identifier: Apache-2.0
"""Stored pages that are not what was written: said in the log and counted, and each becomes a page without a result."""

from __future__ import annotations

import logging

from prometheus_client import CollectorRegistry, Counter

from docparser.jobs.storage.queue import Claim, StepQueue

log = logging.getLogger(__name__)


class Damage:
    def __init__(self, queue: StepQueue, registry: CollectorRegistry) -> None:
        self._queue = queue
        self._count = Counter(
            "docparser_damaged_pages", "Stored pages that were found not to be what was written.", registry=registry
        )

    def found(self, job_id: str, number: int, words: str) -> None:
        """While a result was read: the page fails, and can be retried."""
        self._say(job_id, number, words)
        self._queue.damaged(job_id, number, words)

    def before_joining(self, claim: Claim, pages: dict[int, str]) -> None:
        """Of these pages, by number, with the words: they are read again, and joined after that."""
        for number, words in pages.items():
            self._say(claim.job.id, number, words)
        self._queue.read_again(claim, pages)

    def _say(self, job_id: str, number: int, words: str) -> None:
        log.error("job %s, page %d: %s", job_id, number, words)
        self._count.inc()
