# SPDX-License-Identifier: Apache-2.0
"""What all clients share at once: places, connections, bytes. One client has at most half of it."""

from __future__ import annotations

from collections import Counter


class Shares:
    """``most`` in all and ``own`` for one client, which is half where nothing is said. For one thread or one loop."""

    def __init__(self, most: int, own: int | None = None) -> None:
        self.most = most
        self.own = (most + 1) // 2 if own is None else own
        self.taken = 0
        self._by_client: Counter[str] = Counter()

    def of(self, client: str) -> int:
        return self._by_client[client]

    def bound(self, client: str, amount: int = 1) -> int | None:
        """The bound that ``amount`` more for this client would exceed, or None if there is room."""
        if self.taken + amount > self.most:
            return self.most
        return self.own if self._by_client[client] + amount > self.own else None

    def take(self, client: str, amount: int = 1) -> None:
        self.taken += amount
        self._by_client[client] += amount

    def give_back(self, client: str, amount: int = 1) -> None:
        self.taken -= amount
        self._by_client[client] -= amount
        if not self._by_client[client]:
            del self._by_client[client]
