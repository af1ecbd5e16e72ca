# SPDX-License-Identifier: Apache-2.0
"""Hostile clients of a parser, one kind at a time, each with a bound on what it sends in a second.

    PYTHONPATH=workshop:operations python -m parser_bench.hostile_traffic KIND URL KEY

prints "ready" and begins, at the lowest priority. At SIGTERM it hangs up, and prints as JSON how often each status came
(0: no answer). It has addresses of its own on loopback and, where a kind needs one, a key of its own.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import itertools
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from PIL import Image

from chaos import hostile
from parser_bench.documents import endless_pdf, text_pdf
from parser_bench.simulated_vlm import MODEL

ADDRESSES = tuple(f"127.0.0.{number}" for number in range(2, 66))
JOBS = "/api/v2/ocr/jobs"
LOWEST = 19  # the priority of all that follows "ready"
ANSWER_S = 60.0
LONGEST = 1 << 16  # bytes of an answer that are read
STATUS_AT = len(b"HTTP/1.1 ")
MARK = b"MarkMarkMark"  # in base64; digits take its place, so that no document comes twice
FORM = "multipart/form-data; boundary=x"


@dataclass
class Target:
    """The service, and what became of the requests."""

    host: str
    port: int
    key: str
    statuses: Counter[int] = field(default_factory=Counter)

    def request(self, method: str, path: str, body: bytes = b"", kind: str = "application/json", *more: str) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}:{self.port}", "Connection: close", *more]
        lines += [f"Authorization: Bearer {self.key}"] if self.key else []
        lines += [f"Content-Type: {kind}", f"Content-Length: {len(body)}"] if body else []
        return "\r\n".join([*lines, "", ""]).encode() + body

    async def exchange(self, data: bytes, source: str = ADDRESSES[0]) -> bytes:
        """The beginning of the answer, to its end if it is short; empty where there is none. Counts its status."""
        answer = b""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(ANSWER_S), self.connected(source) as (reader, writer):
                writer.write(data)
                await writer.drain()
                while len(answer) < LONGEST and (more := await reader.read(LONGEST)):
                    answer += more
        self.count(answer)
        return answer

    def count(self, answer: bytes) -> None:
        said = answer[STATUS_AT : STATUS_AT + 3]
        self.statuses[int(said) if said.isdigit() else 0] += 1

    @contextlib.asynccontextmanager
    async def connected(self, source: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection(self.host, self.port, local_addr=(source, 0))
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


class Pace:
    """Lets `per_second` through, evenly."""

    def __init__(self, per_second: float) -> None:
        self._gap = 1 / per_second
        self._next = time.monotonic()

    async def turn(self) -> None:
        now = time.monotonic()
        self._next = max(self._next + self._gap, now - self._gap)
        await asyncio.sleep(max(0.0, self._next - now))


Kind = Callable[[Target], Awaitable[object]]


def repeated(requests: list[bytes], at_once: int, per_second: float, sources: int = 1) -> Kind:
    """These requests in turns, so many at a time, until it is cancelled."""

    async def attack(target: Target) -> None:
        data, pace = itertools.cycle(requests), Pace(per_second)
        numbers, addresses = itertools.count(time.time_ns() % 10**9 * 1000), itertools.cycle(ADDRESSES[:sources])

        async def one() -> None:
            while True:
                await pace.turn()
                await target.exchange(next(data).replace(MARK, b"%012d" % next(numbers), 1), next(addresses))

        await asyncio.gather(*(one() for _ in range(at_once)))

    return attack


def held(connections: int, per_second: float, sources: int, said: bytes) -> Kind:
    """So many connections, each opened again when it ends. What is ``said`` is a head that a byte a second follows;
    nothing, where it is empty."""

    async def attack(target: Target) -> None:
        pace = Pace(per_second)

        async def talk(writer: asyncio.StreamWriter) -> None:
            writer.write(said)
            while said and not writer.transport.is_closing():
                await asyncio.sleep(1.0)
                writer.write(b"a")

        async def one(number: int) -> None:
            while True:
                await pace.turn()
                answer = b""
                with contextlib.suppress(OSError):
                    async with target.connected(ADDRESSES[number % sources]) as (reader, writer):
                        talking = asyncio.create_task(talk(writer))
                        try:
                            answer = await reader.read(LONGEST)
                        finally:
                            talking.cancel()
                target.count(answer)

        await asyncio.gather(*(one(number) for number in range(connections)))

    return attack


def large_json(target: Target) -> Kind:
    """Each entry is wrong, or takes far more memory than its text."""
    chat = b'{"model":"PaddleOCR-VL","messages":['
    parts = b'{"role":"user","content":[' + b'{"type":"text"},' * 299_999 + b'{"type":"text"}]}]}'
    bodies = [
        ("/v1/chat/completions", chat + b"1," * 999_999 + b"1]}"),
        ("/layout-parsing", b'{"file":"x","outputFormats":[' + b"1," * 299_999 + b"1]}"),
        ("/restructure-pages", b'{"pages":[' + b"1," * 299_999 + b"1]}"),
        ("/v1/chat/completions", chat + parts),
        ("/layout-parsing", b'{"file":"x","a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        (JOBS, b'{"model":"m","optionalPayload":{"a":[' + b"{}," * 299_999 + b"1]}}"),
        ("/layout-parsing", b'{"file":"' + b"A" * (5 << 20) + b'!"}'),
    ]
    return repeated([target.request("POST", path, body) for path, body in bodies], 4, 4)


def part_heads(target: Target) -> Kind:
    fields = b"".join(b'--x\r\nContent-Disposition: form-data; name="f%d"\r\n\r\n1\r\n' % n for n in range(100_000))
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n'
    bodies = [
        ("/parse", fields + b"--x--\r\n"),
        ("/parse", head + b"X: " + b"a" * (20 << 20) + b"\r\n\r\nx\r\n--x--\r\n"),
        (JOBS, head + b"X: y\r\n" * 1_000_000 + b"\r\nx\r\n--x--\r\n"),
        ("/parse", head + b"\r\n" + b"\r" * (5 << 20) + b"\r\n--x--\r\n"),
        (JOBS, b"--x\r\n" * 200_000),
        ("/parse", head.replace(b"a.pdf", b";" * 1_000_000) + b"\r\nx\r\n--x--\r\n"),
    ]
    return repeated([target.request("POST", path, body, FORM) for path, body in bodies], 2, 2)


def bombs(target: Target) -> Kind:
    """Documents that cost more than they weigh."""
    large = io.BytesIO()
    Image.new("1", (9900, 9900)).save(large, "PNG")
    documents = [large.getvalue(), *(endless_pdf(number) for number in range(6))]
    documents += [hostile.document(5, number)[1] for number in range(2 * len(hostile.KINDS))]
    requests = []
    for data in documents:
        whole = base64.b64encode(data + b"\n" * (-len(data) % 3)) + MARK
        body = b'{"file": "%s", "visualize": false}' % whole
        requests.append(target.request("POST", "/layout-parsing", body))
    return repeated(requests, 12, 20)


def conversions(target: Target) -> Kind:
    """Pages that the VLM reads as a text which takes long to convert (simulated_vlm.costly)."""
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n'
    body = head + text_pdf(1, 1) + b"\r\n--x--\r\n"
    formats = ("html", "docx", "xlsx", "zip")
    requests = [target.request("POST", f"/parse?format={f}", body, FORM, f"X-Request-Id: costly-{f}") for f in formats]
    return repeated(requests, 12, 20)


MALFORMED = (
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"POST /parse HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /parse HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"POST /parse HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    b"POST /parse HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 9_000 + b"\r\n",
    b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET http://169.254.169.254/ HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    b"\r\n" * 1000,
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
)


CALLBACKS = (
    "http://127.0.0.1:{port}/health",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://[::ffff:127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[fe80::1%25lo]/",
    "http://169.254.169.254/latest/meta-data/",
    "http://user@hooks.example.com@127.0.0.1/",
    "http://hooks.example.com。127.0.0.1/",
    "http://hooks.example.com:22/",
    "http://.cb.test/",
    "file:///etc/passwd",
    "http://hooks.example.com/\r\nX: y",
    "http://" + "a." * 10_000 + "example.com/",
)


def callbacks(target: Target) -> Kind:
    """Addresses in this machine and its networks, for a job's callback and as the document's own."""
    requests = []
    for address in CALLBACKS:
        address = address.replace("{port}", str(target.port))
        job = {"model": MODEL, "fileUrl": "data:application/pdf;base64,JVBERg==", "callbackUrl": address}
        requests.append(target.request("POST", JOBS, json.dumps(job).encode()))
        requests.append(target.request("POST", "/layout-parsing", json.dumps({"file": address}).encode()))
    return repeated(requests, 16, 50)


PATHS = (
    "/../../etc/passwd",
    "/ui/..%2f..%2fserver.py",
    "/ui/%2e%2e/%2e%2e/server.py",
    "/ui/" + "a/" * 2000,
    "//etc/passwd",
    "/.env",
    "/.git/config",
    "/wp-login.php",
    JOBS + "/00000000000000000000000000000000",
    JOBS + "/../../../links.key",
    "/api/v2/ocr/results/00000000000000000000000000000000/1-0000000000000000000000000000000000000000/result.jsonl",
    "/api/v2/ocr/results/%00/%0a/result.jsonl",
    "/metrics",
    "/openapi.json",
    "/docs",
    "/v1/files",
    "/%",
)


def paths(target: Target) -> Kind:
    """Without a key, and with one that nobody has."""
    stranger, guessing = Target(target.host, target.port, ""), Target(target.host, target.port, "guessed")
    requests = [stranger.request("GET", path) for path in PATHS]
    requests += [guessing.request("POST", path, b"{}") for path in PATHS]
    return repeated(requests, 16, 100, sources=8)


def polls(target: Target) -> Kind:
    """Streams of events and polls that wait for a job which does not end (simulated_vlm, --hold-jobs), its state asked
    for beside them, and small jobs that fail, so that all who wait look again."""

    def submission(page: bytes) -> bytes:
        job = {"model": MODEL, "fileUrl": f"data:application/pdf;base64,{base64.b64encode(page).decode()}"}
        return target.request("POST", JOBS, json.dumps(job).encode())

    waited_for, failing = submission(text_pdf(1, 2)), submission(b"%PDF-1.7 nothing")

    async def attack(target: Target) -> None:
        made = await target.exchange(waited_for)
        job_id = json.loads(made.partition(b"\r\n\r\n")[2])["data"]["jobId"]
        asked = [f"/v1/status/poll/{job_id}-md?wait=10", f"{JOBS}/{job_id}/events", f"{JOBS}/{job_id}"]
        waits, streams, state = ([target.request("GET", path)] for path in asked)
        try:
            await asyncio.gather(
                repeated(waits, 100, 50)(target),
                repeated(streams, 100, 50)(target),
                repeated(state, 8, 20)(target),
                repeated([failing], 2, 2)(target),
            )
        finally:
            await target.exchange(target.request("DELETE", f"{JOBS}/{job_id}?purge=true"))

    return attack


# Each prepares what takes time, and returns what begins at once.
KINDS: dict[str, Callable[[Target], Kind]] = {
    "large JSON": large_json,
    "slow heads": lambda _: held(600, 200, 1, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "),
    "connections, one address": lambda _: held(700, 200, 1, b""),
    "connections, 64 addresses": lambda _: held(1500, 400, 64, b""),
    "part heads": part_heads,
    "waiting polls": polls,
    "conversions": conversions,
    "bombs": bombs,
    "malformed": lambda _: repeated([*MALFORMED], 16, 100),
    "callbacks": callbacks,
    "paths": paths,
}


async def attack(kind: str, target: Target) -> None:
    prepared = KINDS[kind](target)
    os.nice(LOWEST)
    work = asyncio.ensure_future(prepared(target))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    print("ready", flush=True)
    with contextlib.suppress(asyncio.CancelledError):
        await work
    print(json.dumps(dict(sorted(target.statuses.items()))), flush=True)


def main(kind: str, url: str, key: str) -> None:
    place = urlsplit(url)
    assert place.hostname and place.port, f"{url!r}: expected http://HOST:PORT"
    asyncio.run(attack(kind, Target(place.hostname, place.port, key)))


if __name__ == "__main__":
    main(*sys.argv[1:])
