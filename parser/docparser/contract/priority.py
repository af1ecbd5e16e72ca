# SPDX-License-Identifier: Apache-2.0
"""Interactive and bulk pages. Who waits for an answer comes before an archive that is worked off.

Pages are bulk where their key or their job says so. What is bulk of a client takes its turns by a name of its own, so
the name alone tells it, in this process and in the queue of several parsers.
"""

from __future__ import annotations

from typing import Literal, get_args

Priority = Literal["interactive", "bulk"]
PRIORITIES: tuple[str, ...] = get_args(Priority)
BULK = " bulk"  # at the end of a client's name


def with_priority(client: str, *, bulk: bool) -> str:
    return client + BULK if bulk and not is_bulk(client) else client


def is_bulk(client: str) -> bool:
    return client.endswith(BULK)


EXACT = 1e-9  # tenths add up to a little less than one


class BulkShare:
    """Of the pages that are begun while both kinds wait, ``share`` (0 to 1) are bulk: so bulk never starves."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._owed = 0.0

    @property
    def bulk_first(self) -> bool:
        return self._owed >= 1 - EXACT

    def begun(self, *, bulk: bool, bulk_waits: bool = True) -> None:
        """A page was chosen. Where nobody knows whether bulk pages wait, they may."""
        owed = self._owed + self._share - bulk if bulk_waits else 0.0
        self._owed = min(max(owed, 0.0), 1 + self._share)  # no more is owed unless bulk pages find no room
