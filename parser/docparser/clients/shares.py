# SPDX-License-Identifier: Apache-2.0
"""What all clients share at once: connections, bytes, work. One client has at most half of it."""

from __future__ import annotations

import contextlib
import ipaddress
from collections import Counter
from collections.abc import Iterator

from docparser.errors import TooBusy

PREFIX_V6 = 64  # bits; a subscriber has at least such a network, and 2^64 addresses in it (RFC 6177, RFC 7421)


class Shares:
    """``most`` in all and ``own`` for one client, which is half where nothing is said. For one thread or one loop."""

    def __init__(self, most: int, own: int | None = None) -> None:
        self.most = most
        self.own = (most + 1) // 2 if own is None else own
        self.taken = 0
        self._by_client: Counter[str] = Counter()

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


def network_of(address: str) -> str:
    """Who counts as one client: an IPv4 address, also one that is written as IPv6; of IPv6 the network of 64 bits."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return address if found.is_loopback else str(ipaddress.ip_network((found, PREFIX_V6), strict=False))


class ConcurrencyLimit:
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
