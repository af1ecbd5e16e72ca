# SPDX-License-Identifier: Apache-2.0
"""Stands between parser and VLM in a container of its own and, when told to, delays, cuts, refuses or lies.

One file that needs the standard library only: it is mounted into the container. The file `treatment` beside it says
what happens to which share of the requests, `{"mode": "truncate", "share": 0.5}`; it is read for each request. A VLM
that cannot be reached gives 503 with HTML, as a balancer would answer. Each request that was treated is a line of JSON
on the output.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import socket
import struct
import sys
from pathlib import Path

CONTROL = Path(__file__).with_name("treatment")
LIE = "QZLIEQZ"
LENGTH = re.compile(rb"(?im)^content-length:\s*(\d+)")
CONNECTION = re.compile(rb"(?im)^connection:[^\r\n]*\r\n")
HTML = "<html><head><title>{0}</title></head><body><center><h1>{0}</h1></center><hr>no server</body></html>"
REASONS = {502: "Bad Gateway", 503: "Service Unavailable"}
CONNECT_S, HANG_S = 3.0, 120.0
SLOW_S = (3.0, 15.0)
DRIP_BYTES, DRIP_S = 48, 0.15
# Answers with status 200 that are no completion.
SHAPES = (
    b'{"choices": []}',
    b'{"choices": [{"message": {"content": 17}}]}',
    b"[]",
    b'"fine"',
    b'{"object": "error"}',
    b'{"choices": [{"index": 0, "message": {"role": "assistant"}}]}',
    b"[" * 20000,
)
# Texts that cost whoever computes with them.
LIES = {
    "lie_math": "".join(f"\\[{LIE}{number} " for number in range(1200)),
    "lie_table": f"<table><tr><td>{LIE}</td>" + "<td rowspan=200 colspan=200>x</td>" * 60 + "</tr></table>",
    "lie_long": f"{LIE} " + " ".join(f"word{number}" for number in range(40000)),
    "lie_text": f"{LIE} a text that stands nowhere",
}


def treatment() -> tuple[str, float]:
    try:
        told = json.loads(CONTROL.read_text())
        return str(told["mode"]), float(told["share"])
    except (OSError, ValueError, KeyError):
        return "pass", 0.0


def response(status: int, body: bytes, kind: str) -> bytes:
    head = f"HTTP/1.1 {status} {REASONS.get(status, 'OK')}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body


def page_of_balancer(status: int) -> bytes:
    return response(status, HTML.format(f"{status} {REASONS[status]}").encode(), "text/html")


def completion(text: str, streams: bool) -> bytes:
    """The text as the VLM's answer in the form that was asked for."""
    head = {"id": "chatcmpl-0", "created": 0, "model": "PaddleOCR-VL-0.9B"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    if not streams:
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        return response(200, json.dumps(whole).encode(), "application/json")
    parts: list[dict[str, object]] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": usage},
    ]
    events = [json.dumps({**head, "object": "chat.completion.chunk", **part}) for part in parts]
    body = "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]).encode()
    return response(200, body, "text/event-stream; charset=utf-8")


class Exchange:
    """One request of the parser, on a connection of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, chance: random.Random) -> None:
        self.reader, self.writer, self.chance = reader, writer, chance

    async def run(self) -> None:
        head = await self.reader.readuntil(b"\r\n\r\n")
        found = LENGTH.search(head)
        body = await self.reader.readexactly(int(found.group(1))) if found else b""
        head = CONNECTION.sub(b"", head)[:-2] + b"Connection: close\r\n\r\n"
        mode, share = treatment()
        if mode == "pass" or self.chance.random() >= share:
            return await self.forward(head + body)
        asks = head.startswith(b"POST")
        if not asks and mode not in ("html_502", "html_503", "reset", "hang"):
            return await self.forward(head + body)
        print(json.dumps({"mode": mode, "request": head.split(b"\r\n", 1)[0].decode("latin-1")}), flush=True)
        await self.treat(mode, head + body, b'"stream": true' in body or b'"stream":true' in body)

    async def treat(self, mode: str, request: bytes, streams: bool) -> None:
        if mode == "slow":
            await asyncio.sleep(self.chance.uniform(*SLOW_S))
            await self.forward(request)
        elif mode == "drip":
            await self.forward(request, drip=True)
        elif mode == "truncate":
            await self.truncate(request)
        elif mode in ("html_502", "html_503"):
            self.writer.write(page_of_balancer(int(mode[-3:])))
        elif mode == "garbage":
            self.writer.write(response(200, self.chance.randbytes(self.chance.randrange(1, 5000)), "application/json"))
        elif mode == "shape":
            self.writer.write(response(200, self.chance.choice(SHAPES), "application/json"))
        elif mode == "reset":
            self.reset()
        elif mode == "hang":
            for _ in range(int(HANG_S)):
                await asyncio.sleep(1)
                if treatment()[0] != "hang":
                    break
            self.reset()
        else:
            self.writer.write(completion(LIES[mode], streams))

    def reset(self) -> None:
        """End the connection with RST, without an answer."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def upstream(self, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """The VLM with the request sent to it; None where it cannot be reached."""
        host, _, port = os.environ.get("CHAOS_UPSTREAM", "vlm:8000").rpartition(":")
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port)), CONNECT_S)
            writer.write(request)
            await writer.drain()
        except (OSError, TimeoutError):
            self.writer.write(page_of_balancer(503))
            return None
        return reader, writer

    async def forward(self, request: bytes, drip: bool = False) -> None:
        if (found := await self.upstream(request)) is None:
            return
        reader, writer = found
        try:
            while data := await reader.read(1 << 16):
                for start in range(0, len(data), DRIP_BYTES if drip else len(data)):
                    self.writer.write(data[start : start + DRIP_BYTES] if drip else data)
                    await self.writer.drain()
                    if drip:
                        await asyncio.sleep(DRIP_S)
        except ConnectionError:
            self.reset()
        finally:
            writer.close()

    async def truncate(self, request: bytes) -> None:
        """The first part of the VLM's answer, then the end of the connection as if all had been said."""
        if (found := await self.upstream(request)) is None:
            return
        reader, writer = found
        answer = await reader.read()
        writer.close()
        self.writer.write(answer[: int(len(answer) * self.chance.uniform(0.1, 0.9))])


async def serve(port: int) -> None:
    chance = random.Random(os.environ.get("CHAOS_SEED", "0"))

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await Exchange(reader, writer, chance).run()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(accept, "0.0.0.0" if port == 8000 else "127.0.0.1", port, limit=1 << 20)
    print(json.dumps({"ready": server.sockets[0].getsockname()[1]}), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 8000))
