# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests: counted as they arrive, on the disk beyond a small size, whole before anything else begins.

A request that is refused has its body heard as well (``Arriving``), so that its client sees why."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from docparser.clients.shares import Shares
from docparser.documents.spool import close
from docparser.errors import DocumentTooLarge, TooBusy, disk_errors
from docparser.settings import Settings

IN_MEMORY = 1 << 20  # bytes; a larger body goes to the disk
CHUNK = 1 << 18
T = TypeVar("T")


class Bodies:
    """All bodies that arrive or are worked on. Bytes count once, wherever they are: PARSER_MAX_BODIES_MIB bounds the
    disk that they take, and the memory."""

    def __init__(self, settings: Settings) -> None:
        self.folder: Path | None = settings.spool_dir
        most = settings.max_bodies_mib << 20
        self.longest = min(settings.max_body_mib << 20, most)
        self.shares = Shares(most, max((most + 1) // 2, self.longest))


class Body:
    """One request's body, as a context; at its end nothing of it is left. Not counted before it comes: who announces
    much and sends nothing keeps nobody out."""

    def __init__(self, bodies: Bodies, client: str) -> None:
        self._bodies = bodies
        self._client = client
        self._charged = 0
        self._taken = False
        self.size = 0
        self._kept = contextlib.ExitStack()
        place = str(bodies.folder) if bodies.folder else None
        spool = tempfile.SpooledTemporaryFile(IN_MEMORY, prefix="docparser-", dir=place)  # noqa: SIM115
        self.file = cast(BinaryIO, spool)
        self._kept.callback(close, self.file)

    def __enter__(self) -> Body:
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()
        self._bodies.shares.give_back(self._client, self._charged)

    def keep(self, context: contextlib.AbstractContextManager[T]) -> T:
        """Something that ends with the body."""
        return self._kept.enter_context(context)

    def check(self, size: int) -> None:
        """Raises DocumentTooLarge and TooBusy for a body of ``size`` bytes, of which some may have come."""
        if size > self._bodies.longest:
            raise DocumentTooLarge(
                f"The request is larger than {self._bodies.longest >> 20} MiB (PARSER_MAX_BODY_MIB)."
            )
        self._check_room(size - self._charged)

    def charge(self, memory: int) -> None:
        """Count what the body takes in memory, where that is more than its size. Raises as ``check`` does."""
        more = memory - self._charged
        if more > 0:
            if memory > self._bodies.shares.own:
                raise DocumentTooLarge(
                    f"The JSON would take {memory >> 20} MiB of memory beside its document; one client may have "
                    f"{self._bodies.shares.own >> 20} (PARSER_MAX_BODIES_MIB). Send it in parts."
                )
            self._check_room(more)
            self._bodies.shares.take(self._client, more)
            self._charged += more

    def _check_room(self, more: int) -> None:
        shares = self._bodies.shares
        if shares.bound(self._client, more) is not None:
            whose = "requests" if shares.taken + more > shares.most else "requests of this client"
            raise TooBusy(
                f"The {whose} that are arriving or at work leave no room for {more} bytes (PARSER_MAX_BODIES_MIB is "
                f"{shares.most >> 20}; one client has {shares.own >> 20})."
            )

    async def arrive(self, receive: Receive) -> bool:
        """Take the whole body in; False if the client left. Raises DocumentTooLarge, TooBusy, SpoolFull."""
        waiting = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return False
            piece = message.get("body", b"")
            more = message.get("more_body", False)
            if piece:
                self.check(self.size + len(piece))
                self.size += len(piece)
                self.charge(self.size)
                waiting += piece
            if len(waiting) > CHUNK:
                await self._write(waiting)
                waiting = bytearray()
        await self._write(waiting)
        with disk_errors():
            self.file.seek(0)
        return True

    async def _write(self, data: bytearray) -> None:
        with disk_errors():
            if self.size <= IN_MEMORY:
                self.file.write(data)
            else:
                await asyncio.to_thread(self.file.write, data)

    def replay(self, receive: Receive) -> Receive:
        """What gives the body again, as far as nobody has taken it, and after it whatever ``receive`` gives: that the
        client has left."""

        async def again() -> Message:
            if self._taken:
                return await receive()
            piece = await self.read(CHUNK)
            return {"type": "http.request", "body": piece, "more_body": not self._taken}

        return again

    def free(self) -> None:
        """All is taken, and lies elsewhere: give the disk back."""
        self._taken = True
        if self.size > IN_MEMORY:
            self.file.truncate(0)

    async def read(self, size: int = -1) -> bytes:
        """The next piece, all by default. After the last one the disk is free: a form has its parts in files of their
        own."""
        if self.size <= IN_MEMORY:
            return self._read(size)
        return await asyncio.to_thread(self._read, size)

    def _read(self, size: int) -> bytes:
        piece = self.file.read(size)
        if self.file.tell() >= self.size:
            self.free()
        return piece


HEARD_S = 30.0  # how long a refused client is heard before it is answered
SILENCE_S = 1.0  # a client that sends nothing for so long waits for its answer


class Arriving:
    """``receive`` of one request. Many clients take it for a lost connection if an answer comes while they still send,
    and show nothing of it (undici, and with it Node's fetch)."""

    def __init__(self, scope: Scope, receive: Receive, most: int) -> None:
        """``most``: bytes of a body that are heard before a refusal."""
        self._receive = receive
        self._most = most
        self._heard = 0
        # A client that asks first sends nothing if it is refused (RFC 9110, 10.1.1).
        self._over = any(name == b"expect" for name, _ in scope["headers"])
        self._left = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._heard += len(message.get("body", b""))
        self._left = message["type"] == "http.disconnect"
        self._over = self._left or not message.get("more_body", False)
        return message

    async def refused(self, response: ASGIApp, scope: Scope, send: Send) -> None:
        """Answer once the client has sent its body, or as much of it as is heard."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARD_S):
                while not self._over and self._heard <= self._most:
                    async with asyncio.timeout(SILENCE_S):
                        await self.receive()
        if not self._left:
            await response(scope, self._receive, send)
