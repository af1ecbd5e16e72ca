# SPDX-License-Identifier: Apache-2.0
"""Places for work that all clients share: requests at work, streams of events."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from docparser.clients.shares import Shares
from docparser.errors import TooBusy


class Places:
    """``most`` at once, one client half of them. ``what`` and ``setting`` are words of the refusal."""

    def __init__(self, most: int, what: str, setting: str) -> None:
        self._shares = Shares(most)
        self._what = what
        self._setting = setting

    def check(self, client: str) -> None:
        """Raises TooBusy if there is no place."""
        bound = self._shares.bound(client)
        if bound == self._shares.most:
            raise TooBusy(f"There are {bound} {self._what}, which is all that is allowed ({self._setting}).")
        if bound is not None:
            raise TooBusy(
                f"There are {bound} {self._what} for this client, which is all that one client may have: half of "
                f"{self._setting}."
            )

    @contextlib.contextmanager
    def taken(self, client: str) -> Iterator[None]:
        """Raises TooBusy."""
        self.check(client)
        self._shares.take(client)
        try:
            yield
        finally:
            self._shares.give_back(client)
