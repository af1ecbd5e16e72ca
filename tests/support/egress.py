# SPDX-License-Identifier: Apache-2.0
"""No way out: programs of others get loopback and nothing else, and what they tried is remembered."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Iterator
from typing import Any


class Egress:
    """``tried`` are hosts and addresses beyond loopback, which are refused."""

    def __init__(self) -> None:
        self.tried: list[str] = []

    def check(self, host: Any) -> None:
        """Raises ConnectionRefusedError for what is not loopback."""
        name = host.decode() if isinstance(host, bytes) else str(host)
        if name == "localhost":
            return
        with contextlib.suppress(ValueError):
            if ipaddress.ip_address(name).is_loopback:
                return
        self.tried.append(name)
        raise ConnectionRefusedError(f"{name} lies beyond loopback (test)")

    @contextlib.contextmanager
    def refused(self) -> Iterator[Egress]:
        """While the context lasts, in this process."""
        look_up, connect, connect_ex = socket.getaddrinfo, socket.socket.connect, socket.socket.connect_ex

        def checked_look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
            if host is not None:
                self.check(host)
            return look_up(host, *args, **kwargs)

        def checked(call: Any) -> Any:
            def checked_call(own: socket.socket, address: Any) -> Any:
                if isinstance(address, tuple):
                    self.check(address[0])
                return call(own, address)

            return checked_call

        socket.getaddrinfo = checked_look_up
        socket.socket.connect = checked(connect)  # type: ignore[method-assign]  # every library connects by it
        socket.socket.connect_ex = checked(connect_ex)  # type: ignore[method-assign]  # the same
        try:
            yield self
        finally:
            socket.getaddrinfo = look_up
            socket.socket.connect, socket.socket.connect_ex = connect, connect_ex  # type: ignore[method-assign]  # back
