# SPDX-License-Identifier: Apache-2.0
"""Several VLM servers with the same weights, where no balancer stands in front of them: which one gets a call."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence

FIRST_REST_S = 1.0  # of a server that failed
LONGEST_REST_S = 30.0


@dataclasses.dataclass
class Endpoint:
    """One server. ``url`` is its API root; ``in_work`` counts the calls of this process that it has now."""

    url: str
    in_work: int = 0
    given: int = 0  # calls so far
    failures: int = 0  # since it last answered
    rests_until: float = float("-inf")  # time.monotonic()

    def answered(self) -> None:
        self.failures, self.rests_until = 0, float("-inf")

    def failed(self) -> None:
        """It rests: the others get its calls, and one call tries it again afterwards."""
        self.failures += 1
        self.rests_until = time.monotonic() + min(LONGEST_REST_S, FIRST_REST_S * 2 ** min(self.failures - 1, 10))


class Endpoints:
    """A call goes to the server with the fewest calls in work, so a slower one gets fewer. Belongs to one event
    loop."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.all = [Endpoint(url) for url in urls]

    @contextlib.contextmanager
    def one(self) -> Iterator[Endpoint]:
        """A server for one call; it has the call as long as the context."""
        now, awake = time.monotonic(), self.awake
        # Of two with as much in work, the one that was given less: else the first would have all calls of a quiet time.
        chosen = min(awake or self.all, key=lambda endpoint: (endpoint.in_work, endpoint.given))
        if chosen.failures and awake:
            chosen.rests_until = now + FIRST_REST_S  # this call tries it; others do not follow at once
        chosen.in_work += 1
        chosen.given += 1
        try:
            yield chosen
        finally:
            chosen.in_work -= 1

    @property
    def awake(self) -> list[Endpoint]:
        """Those that do not rest; of one server alone, none for a while after it failed."""
        now = time.monotonic()
        return [endpoint for endpoint in self.all if endpoint.rests_until <= now]

    def __str__(self) -> str:
        return ", ".join(endpoint.url for endpoint in self.all)
