# SPDX-License-Identifier: Apache-2.0
"""The open connections: how many there are, from which addresses, and the clock that checks each of them."""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
from typing import Protocol

from docparser.clients.shares import Shares, network_of
from docparser.settings import Settings

REFUSED_AT_ONCE = 64  # connections beyond the bound that are told why; further ones are cut off
KEPT = 16  # places beyond the bound for this machine itself, from which probes come
LOCAL = ("127.0.0.1", "::1")
ASKED = 64  # waiting connections that are asked whether they have sent something, the oldest first


class Watched(Protocol):
    @property
    def waiting(self) -> tuple[int, float] | None:
        """0 if a head is to come, or nothing but the end; 1 between two requests; and since when, in the loop's time.
        None while a request is at work."""

    @property
    def fresh(self) -> bool:
        """Whether its first head is still to come: it waits since it was opened."""

    @property
    def unread(self) -> bool:
        """Whether its client has sent something that was not read yet: many come in one turn of the loop."""

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
        """End a connection that waits, if there is one: first those that never sent a whole head. A proxy may be about
        to send a request where it has sent others, so such connections of it stay."""
        in_order = [connection for _, connection in sorted(self._waiting(kept), key=lambda entry: entry[0])]
        # A flood comes in one turn of the loop, so all of it is unread; to ask each for each would take a second.
        heard = (connection for connection in in_order[:ASKED] if not connection.unread)
        first = next(heard, in_order[0] if in_order else None)
        if first is not None:
            self.leave(first)
            first.cut()

    def _waiting(self, kept: bool) -> list[tuple[tuple[int, float], Watched]]:
        """Connections that may be ended, with their rank: all, or at least the first ASKED. A flood has this done for
        each of its connections, so it stops where all further ones were opened later, and so wait since later."""
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
