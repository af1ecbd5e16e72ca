# SPDX-License-Identifier: Apache-2.0
"""A transport that knows how much its client has taken, and asks before it closes."""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
from collections.abc import Callable
from typing import Any


class CountedTransport:
    """Around asyncio's transport. ``keeps_open`` is asked by ``close``: if it says so, the connection stays for now."""

    def __init__(self, transport: asyncio.Transport, keeps_open: Callable[[], bool]) -> None:
        self._transport = transport
        self._keeps_open = keeps_open
        self._written = 0

    def write(self, data: bytes) -> None:
        self._written += len(data)
        self._transport.write(data)

    def close(self) -> None:
        if not self._keeps_open():
            self._transport.close()

    def write_eof(self) -> None:
        """Say that no more comes. A client that has reset the connection cannot be told."""
        try:
            self._transport.write_eof()
        except OSError:
            self._transport.abort()

    def reset(self) -> None:
        """Close at once, and let the kernel throw away what it has for a client that does not take it."""
        with contextlib.suppress(OSError, ValueError):
            own = self._transport.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    @property
    def pending(self) -> int:
        """Bytes of answers that this process holds, because the kernel takes no more."""
        return self._transport.get_write_buffer_size()

    @property
    def delivered(self) -> int:
        """Bytes that have reached the client's machine: neither here nor in the kernel's queue (SIOCOUTQ, tcp(7)).

        The queue takes megabytes and reports room in large steps, so without it a slow client looks like a dead one.
        """
        queued = array.array("i", [0])
        with contextlib.suppress(OSError, ValueError):  # the connection is closed, or is no socket
            fcntl.ioctl(self._transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, queued)
        return self._written - self.pending - queued[0]

    @property
    def unread(self) -> int:
        """Bytes that the client has sent and nobody has read (FIONREAD, tcp(7))."""
        waiting = array.array("i", [0])
        with contextlib.suppress(OSError, ValueError):  # as above
            fcntl.ioctl(self._transport.get_extra_info("socket").fileno(), termios.FIONREAD, waiting)
        return waiting[0]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
