# SPDX-License-Identifier: Apache-2.0
"""The open connections: how many there are, from which addresses, and the clock that checks each of them."""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
from typing import Protocol

from docparser.clients.shares import Shares, network_of
from docparser.settings import Settings

REFUSED_AT_ONCE = 64  # connections beyond the bound that get a refusal; further ones are cut off
KEPT = 16  # places beyond the bound for this machine's own probes
LOCAL = ("127.0.0.1", "::1")
ASKED = 64  # waiting connections that are checked for unread bytes, oldest first


class Watched(Protocol):
    @property
    def waiting(self) -> tuple[int, float] | None:
        """A rank, and since when in the loop's time: 0 while a head or only the connection's end is awaited, 1 between
        two requests, 2 while a body has come slowly for long. None while a request is at work."""

    @property
    def fresh(self) -> bool:
        """Whether it has waited for its first head ever since it was opened."""

    @property
    def unread(self) -> bool:
        """Whether its client has sent bytes that nobody has read yet. Many connections arrive within one turn of the
        loop."""

    def cut(self) -> None:
        """Ends the connection at once."""

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
        self._open: dict[Watched, str | None] = {}  # None: it has one of the places that are kept
        self._refused: set[Watched] = set()
        times = (settings.header_timeout_s, settings.stall_timeout_s)
        self._tick_s = min(1.0, *(time / 4 for time in times))
        self._clock: asyncio.TimerHandle | None = None

    def enter(self, connection: Watched, address: str, loop: asyncio.AbstractEventLoop) -> Refusal | None:
        """Why the connection may not stay, or None; ``leave`` undoes either. No words beyond REFUSED_AT_ONCE.

        Where all places are taken, the connection that has waited longest for its client makes room.
        """
        client = "" if self._is_proxy(address) else network_of(address)
        shares = self._shares
        if shares.taken >= shares.most:
            self._make_room(kept=False)
        bound = shares.bound(client) if client else (shares.most if shares.taken >= shares.most else None)
        if self._clock is None:
            self._clock = loop.call_later(self._tick_s, self._look, loop)
        if bound is None:
            shares.take(client)
            self._open[connection] = client
            return None
        if client in LOCAL and self._has_kept_place():
            self._open[connection] = None
            return None
        if len(self._refused) >= REFUSED_AT_ONCE:
            return Refusal(503, "")
        self._refused.add(connection)
        if bound == shares.most:
            return Refusal(503, f"{shares.most} connections are open, which is all that is allowed.")
        return Refusal(
            429,
            f"{bound} connections of {address} are open, which is all that one client may have: half of "
            "PARSER_MAX_CONNECTIONS. Behind a proxy, the operator sets PARSER_TRUSTED_PROXIES.",
        )

    def leave(self, connection: Watched) -> None:
        self._refused.discard(connection)
        if connection in self._open and (client := self._open.pop(connection)) is not None:
            self._shares.give_back(client)

    def _has_kept_place(self) -> bool:
        def full() -> bool:
            return list(self._open.values()).count(None) >= KEPT

        if full():
            self._make_room(kept=True)
        return not full()

    def _make_room(self, *, kept: bool) -> None:
        """End a waiting connection, if there is one. Those that never sent a whole head go first, slow bodies last: of
        their requests nothing is done yet. Connections over which a proxy has sent requests stay, because its next
        request may be on the way."""
        in_order = [connection for _, connection in sorted(self._waiting(kept), key=lambda entry: entry[0])]
        # A flood arrives within one loop turn, so every connection has unread bytes. Checking all of them for each new
        # one would take a second.
        heard = (connection for connection in in_order[:ASKED] if not connection.unread)
        first = next(heard, in_order[0] if in_order else None)
        if first is not None:
            self.leave(first)
            first.cut()

    def _waiting(self, kept: bool) -> list[tuple[tuple[int, float], Watched]]:
        """Connections that may be ended, with their rank: all, or at least the first ASKED. A flood causes one call for
        each of its connections, so the search stops where all further ones were opened later and have waited less."""
        found: list[tuple[tuple[int, float], Watched]] = []
        fresh = 0
        for connection, client in self._open.items():
            if (client is None) != kept or (since := connection.waiting) is None:
                continue
            if since[0] == 0 or client != "":
                found.append((since, connection))
                fresh += connection.fresh
                if fresh == ASKED:
                    break
        return found

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
