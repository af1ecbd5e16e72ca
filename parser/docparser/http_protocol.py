# SPDX-License-Identifier: Apache-2.0
"""What bounds a connection before the application sees anything of it: uvicorn's HTTP/1.1 protocol with time limits for
heads, bodies, answers, and whatever a refused client still sends. Its transport knows how much a client has taken, and
asks before it closes."""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import http
import json
import re
import socket
import struct
import sys
import termios
import uuid
from collections.abc import Callable
from typing import Any, ClassVar, cast

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from docparser.clients.connections import ConnectionRegistry
from docparser.settings import Settings

RETRY_S = 10
LINGER_S = 30.0  # how long a refused client may go on sending
MOST_FIELDS = 128  # of a head; the reader takes a millisecond for each 700, in which nobody else is served
HEAD_ENDS = re.compile(rb"\n\r?\n")  # as h11 has it
SILENCE_S = 2.0  # after so long without a byte it has seen the answer, or never will
SLOW_RATE = 1 << 14  # bytes a second; a slower body may have to make room for another connection


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
        """Tell the client that no more comes, unless it has reset the connection."""
        try:
            self._transport.write_eof()
        except OSError:
            self._transport.abort()

    def reset(self) -> None:
        """Close at once. The kernel drops the bytes that the client has not taken."""
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

        The kernel's queue takes megabytes and reports room in large steps. Unless it is counted, a slow client looks
        dead.
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


def error_answer(status: int, words: str) -> bytes:
    """A whole HTTP answer where no request could be read; the connection closes after it.

    No path is known yet, so the body has the fields of every path family (``http.errors``). Two have a ``code``: it is
    the job API's number, whose clients choose by it; those of Mistral's API read ``message``.
    """
    limited = "rate_limit_exceeded" if status == 429 else None
    kind = "server_error" if status >= 500 else limited or "invalid_request_error"
    reason = {"message": words, "type": kind, "param": None, "code": limited}
    body = {"logId": str(uuid.uuid4()), "errorCode": status, "errorMsg": words, "error": reason}
    body |= {**reason, "object": "error", "detail": words, "code": status, "msg": words}
    content = json.dumps(body).encode()
    retry = f"Retry-After: {RETRY_S}\r\n" if status in (429, 503) else ""
    head = (
        f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n{retry}X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + content


class Head:
    """Counts the lines of a head as it comes in pieces."""

    def __init__(self) -> None:
        self._lines = 0
        self._tail = b""

    def too_long(self, piece: bytes) -> bool:
        """Whether the head has more than MOST_FIELDS with this piece. It may end inside the piece."""
        known, data = len(self._tail), self._tail + piece
        end = HEAD_ENDS.search(data)
        self._lines += data.count(b"\n", known, end.start() + 1 if end else len(data))
        self._tail = data[-2:]
        return self._lines > MOST_FIELDS + 1  # and the line of the request


class Pace:
    """Whether bytes move at ``rate`` bytes a second or more, on average over each window of ``window_s`` seconds.

    The average since the beginning would not do: a client that sent much at first could then be silent for days.
    """

    def __init__(self, rate: int, window_s: float) -> None:
        self._least = rate * window_s  # bytes in a window
        self._window_s = window_s
        self._began = 0.0
        self._moved = 0

    def restart(self, now: float, moved: int) -> None:
        """A window begins; ``moved`` bytes have moved in all so far."""
        self._began, self._moved = now, moved

    def too_slow(self, now: float, moved: int) -> bool:
        """Judges the window if it is over, and begins the next one."""
        if now - self._began < self._window_s:
            return False
        slow = moved - self._moved < self._least
        self.restart(now, moved)
        return slow


def bounded_protocol(settings: Settings) -> type[BoundedProtocol]:
    """The protocol class for uvicorn, which makes one object of it per connection. All objects share one registry."""
    return type("Protocol", (BoundedProtocol,), {"registry": ConnectionRegistry(settings)})


class BoundedProtocol(H11Protocol):
    """One connection. The registry's clock calls ``look``, so no request arms timers of its own.

    A client that is refused while it sends gets its answer, and the rest of what it sends is thrown away. A connection
    that is closed with unread bytes would be reset, and the client's machine might then discard the answer
    (RFC 9112, 9.6).
    """

    registry: ClassVar[ConnectionRegistry]
    transport: CountedTransport  # type: ignore[assignment]  # uvicorn calls what both have

    # uvicorn names the subclass of transports that asyncio gives a TCP server.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        counted = CountedTransport(transport, self._goes_on_reading)
        super().connection_made(cast(asyncio.Transport, counted))
        settings = self.registry.settings
        self._settings = settings
        self._head_since: float | None = self.loop.time()
        self._head = Head()
        self._body_since = 0.0
        self._received = self._body_from = 0  # bytes
        self._seen: RequestResponseCycle | None = None
        self._arriving = Pace(settings.least_rate, settings.stall_timeout_s)
        self._leaving = Pace(settings.least_rate, settings.stall_timeout_s)
        self._lingers_until: float | None = None
        self._heard = self._idle_since = self.loop.time()
        self._thrown_away = 0  # bytes
        refusal = self.registry.enter(self, self.client[0] if self.client else "", self.loop)
        if refusal is not None:
            self._end(refusal.status, refusal.words) if refusal.words else transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.registry.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._lingers_until is not None:
            self._thrown_away += len(data)
            self._heard = self.loop.time()
            if self._thrown_away > 2 * self._settings.max_body_mib << 20:
                self.transport.abort()
            return
        self._received += len(data)
        cycle = self.cycle
        if self._head_since is None and (cycle is None or cycle.response_complete):
            self._head_since = self.loop.time()
            self._head = Head()
        if self._head_since is not None and self._head.too_long(data):
            return self._end(431, f"The head of the request has more than {MOST_FIELDS} fields; send fewer.")
        super().data_received(data)
        if self.cycle is not cycle:
            self._head_since = None

    def look(self, now: float) -> None:
        """Ends the connection if its client is late."""
        transport, cycle = self.transport, self.cycle
        if transport.pending == 0:
            self._leaving.restart(now, transport.delivered)
        elif self._leaving.too_slow(now, transport.delivered):
            return transport.reset()
        if self._lingers_until is not None:
            silent = transport.pending == 0 and now - self._heard > SILENCE_S
            if silent or now > self._lingers_until:
                transport.abort()
            return None
        if transport.is_closing():
            return None
        if self._head_since is not None:
            if now - self._head_since > self._settings.header_timeout_s:
                self._head_is_late()
        elif cycle is not None and cycle.more_body and not cycle.response_complete:
            self._look_at_body(now, cycle)
        return None

    def _head_is_late(self) -> None:
        if self._received == 0:  # there is nothing to answer
            return self.transport.close()
        limit = f"{self._settings.header_timeout_s:g} s (PARSER_HEADER_TIMEOUT_S)"
        return self._end(408, f"The head of the request did not arrive within {limit}.")

    def _look_at_body(self, now: float, cycle: RequestResponseCycle) -> None:
        if cycle is not self._seen:
            self._seen, self._body_since, self._body_from = cycle, now, self._received
            self._arriving.restart(now, self._received)
        settings = self._settings
        if now - self._body_since > settings.request_timeout_s:
            limit = f"{settings.request_timeout_s:g} s (PARSER_REQUEST_TIMEOUT_S)"
            self._end(408, f"The body of the request did not arrive within {limit}.")
        elif self.flow.read_paused or cycle.waiting_for_100_continue:  # the service is late, not the client
            self._arriving.restart(now, self._received)
        elif self._arriving.too_slow(now, self._received):
            self._end(
                408,
                f"The body of the request arrives too slowly: less than {settings.least_rate} bytes a second within "
                f"{settings.stall_timeout_s:g} s (PARSER_LEAST_RATE, PARSER_STALL_TIMEOUT_S).",
            )

    def _end(self, status: int, words: str) -> None:
        """Answer in place of the application, which is told that the client has left."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                return self.transport.abort()
        self.transport.write(error_answer(status, words))
        return self._linger()

    def _goes_on_reading(self) -> bool:
        """Whether to keep the connection open although it should close, because its client is still sending."""
        cycle = self.cycle
        if self._lingers_until is not None or cycle is None or not (cycle.response_complete and cycle.more_body):
            return False
        self._linger()
        return True

    def _linger(self) -> None:
        self._heard = self.loop.time()
        self._lingers_until = self._heard + LINGER_S
        self._unset_keepalive_if_required()
        self.flow.resume_reading()
        if not self.transport.is_closing():
            self.transport.write_eof()

    @property
    def waiting(self) -> tuple[int, float] | None:
        if self._lingers_until is not None:
            return 0, self._lingers_until - LINGER_S
        if self._head_since is not None:
            return 0, self._head_since
        cycle = self.cycle
        if cycle is not None and cycle.response_complete:
            return 1, self._idle_since
        if cycle is not None and cycle.more_body and cycle is self._seen:
            seconds = self.loop.time() - self._body_since
            if seconds > self._settings.stall_timeout_s and self._received - self._body_from < SLOW_RATE * seconds:
                return 2, self._body_since
        return None

    @property
    def fresh(self) -> bool:
        return self.cycle is None and self._lingers_until is None

    @property
    def unread(self) -> bool:
        return self._lingers_until is None and self.transport.unread > 0

    def cut(self) -> None:
        self.transport.abort()

    def on_response_complete(self) -> None:
        self._idle_since = self.loop.time()
        if self._lingers_until is None and self.cycle.more_body and not self.transport.is_closing():
            self._linger()
        if self._lingers_until is None:
            return super().on_response_complete()
        self.server_state.total_requests += 1
        return None

    def send_400_response(self, msg: str) -> None:
        """Replaces uvicorn's answer to bytes that are no HTTP. Called while uvicorn handles h11's error, which has the
        status."""
        error = sys.exception()
        status = getattr(error, "error_status_hint", 400)
        self._end(status, f"This is no request in HTTP/1.1: {str(error or msg)[:200]}.")

    def shutdown(self) -> None:
        if self._lingers_until is not None:
            return self.transport.abort()
        return super().shutdown()
