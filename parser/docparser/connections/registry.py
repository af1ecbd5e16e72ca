# SPDX-License-Identifier: Apache-2.0
"""The open connections: how many there are, from which addresses, and the clock that checks each of them."""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
from typing import Protocol

from docparser.clients.shares import Shares
from docparser.settings import Settings

REFUSED_AT_ONCE = 64  # connections beyond the bound that are told why; further ones are cut off


class Watched(Protocol):
    def look(self, now: float) -> None:
        """Ends the connection if it is late; ``now`` is the loop's time."""


@dataclasses.dataclass(frozen=True)
class Refusal:
    status: int
    words: str


class ConnectionRegistry:
    """One per server. A proxy has connections for many clients, so the bound for one client does not apply to it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._shares = Shares(settings.max_connections)
        self._proxies = [ipaddress.ip_network(entry) for entry in settings.trusted_proxy_list]
        self._open: dict[Watched, str] = {}
        self._refused: set[Watched] = set()
        times = (settings.header_timeout_s, settings.stall_timeout_s)
        self._tick_s = min(1.0, *(time / 4 for time in times))
        self._clock: asyncio.TimerHandle | None = None

    def enter(self, connection: Watched, address: str, loop: asyncio.AbstractEventLoop) -> Refusal | None:
        """Why the connection may not stay, or None; ``leave`` undoes either. No words beyond REFUSED_AT_ONCE."""
        client = "" if self._is_proxy(address) else address
        shares = self._shares
        bound = shares.bound(client) if client else (shares.most if shares.taken >= shares.most else None)
        if self._clock is None:
            self._clock = loop.call_later(self._tick_s, self._look, loop)
        if bound is None:
            shares.take(client)
            self._open[connection] = client
            return None
        if len(self._refused) >= REFUSED_AT_ONCE:
            return Refusal(503, "")
        self._refused.add(connection)
        if bound == shares.most:
            return Refusal(503, f"{shares.most} connections are open, which is all that is allowed.")
        return Refusal(
            429,
            f"{bound} connections of {address} are open, which is all that one client may have: half of "
            f"PARSER_MAX_CONNECTIONS. An operator whose proxy is in front sets PARSER_TRUSTED_PROXIES.",
        )

    def leave(self, connection: Watched) -> None:
        self._refused.discard(connection)
        if connection in self._open:
            self._shares.give_back(self._open.pop(connection))

    def _is_proxy(self, address: str) -> bool:
        try:
            return any(ipaddress.ip_address(address) in network for network in self._proxies)
        except ValueError:  # a socket without addresses
            return True

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in [*self._open, *self._refused]:
            connection.look(now)
        more = self._open or self._refused
        self._clock = loop.call_later(self._tick_s, self._look, loop) if more else None
