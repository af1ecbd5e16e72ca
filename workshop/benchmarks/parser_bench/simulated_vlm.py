# SPDX-License-Identifier: Apache-2.0
"""A simulated VLM: it answers what a parser asks of the OpenAI API in the time of a VLM on NPUs, and reads nothing.

On an A3 node the VLM does not run on the parser's cores, so this one must cost next to no CPU: one thread, one asyncio
protocol, answers made beforehand, request bodies counted but not decoded. Each die works on ``slots`` requests
at a time, the others wait in order; a request takes ``first_s`` to its first token and then ``tokens`` at ``rate`` per
second. A streamed answer comes in pieces of ``interval`` tokens, as vLLM sends it with ``--stream-interval``. A request
whose id begins with ``costly-`` is answered with a text that takes far longer to convert than others.

    python -m parser_bench.simulated_vlm --dies 4        prints "ready PORT"
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import re
import sys
from collections.abc import Callable

MODEL = "PaddleOCR-VL-0.9B"
WORDS = "river stone paper window garden morning history language number system value result measure light water north"
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
STREAMS = re.compile(rb'"stream": ?true')
LOGPROBS = re.compile(rb'"logprobs": ?true')
COSTLY = re.compile(rb"x-request-id: *costly-", re.IGNORECASE)
OF_A_JOB = re.compile(rb"x-request-id: *job-", re.IGNORECASE)
FORMULAS = 600  # of an answer, which are as many tokens as a block may have; numbered, because what repeats is cut
SEARCHED = 4096  # bytes at either end of a body; the image is between them


class Answers:
    """All answers are the same text, a word for each token, in either form, as HTTP; with ``logprobs``, each event says
    those of its tokens as vLLM does."""

    def __init__(self, words: list[str], interval: int, *, logprobs: bool = False) -> None:
        tokens = len(words)
        usage = {"prompt_tokens": 300, "completion_tokens": tokens, "total_tokens": 300 + tokens}
        message = {"role": "assistant", "content": " ".join(words)}
        told = [entry(word) if logprobs else None for word in words]
        choice = {"index": 0, "message": message, "logprobs": said(told), "finish_reason": "stop"}
        head = {"id": "simulated", "created": 0, "model": MODEL}
        self.whole = as_http({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        self.head = (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        starts = [0, *range(1, tokens, interval)]
        ends = [*starts[1:], tokens]
        chunks = [words[start:end] for start, end in zip(starts, ends)]
        self.counts = [len(chunk) for chunk in chunks]  # tokens of each piece; the first has one
        self.pieces = []
        for number, chunk in enumerate(chunks):
            delta = {"delta": {"content": ("" if number == 0 else " ") + " ".join(chunk)}, "finish_reason": None}
            delta["logprobs"] = said(told[starts[number] : ends[number]])
            self.pieces.append(event({**head, "object": "chat.completion.chunk", "choices": [{"index": 0, **delta}]}))
        last = {"index": 0, "delta": {}, "finish_reason": "stop"}
        self.tail = event({**head, "object": "chat.completion.chunk", "choices": [last]}) + chunked(b"data: [DONE]\n\n")
        self.tail += b"0\r\n\r\n"


def cheap(tokens: int) -> list[str]:
    return (WORDS.split() * (tokens // 10 + 1))[:tokens]


def costly(tokens: int) -> list[str]:
    """Each word is many formulas, so the text takes no longer to come than another."""
    each = FORMULAS // tokens
    return [" ".join(f"$x_{{{word * each + place}}}$" for place in range(each)) for word in range(tokens)]


def entry(word: str) -> dict:
    """What vLLM says of a token where no other tokens' are asked for."""
    return {"token": f" {word}", "logprob": -0.0123456789, "bytes": list(f" {word}".encode()), "top_logprobs": []}


def said(told: list) -> dict | None:
    return {"content": told} if told[0] else None


def as_http(body: dict, status: str = "200 OK") -> bytes:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


def event(body: dict) -> bytes:
    return chunked(b"data: " + json.dumps(body).encode() + b"\n\n")


def chunked(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


class Dies:
    """``slots`` requests per die at a time; the others wait in order."""

    def __init__(self, dies: int, slots: int) -> None:
        self.free = dies * slots
        self.waiting: collections.deque[Callable[[], None]] = collections.deque()
        self.served = 0
        self.most_waiting = 0

    def enter(self, start: Callable[[], None]) -> None:
        if self.free:
            self.free -= 1
            start()
        else:
            self.waiting.append(start)
            self.most_waiting = max(self.most_waiting, len(self.waiting))

    def leave(self) -> None:
        self.served += 1
        if self.waiting:
            self.waiting.popleft()()
        else:
            self.free += 1


class Connection(asyncio.Protocol):
    """HTTP/1.1, one request at a time, as pooled clients send them."""

    def __init__(
        self, dies: Dies, answers: dict[bool, Answers], costly: Answers, first_s: float, rate: float, holds: bool
    ) -> None:
        """``answers``: without log-probabilities, and with. ``holds``: no job's request is answered."""
        self.dies, self.both, self.costly, self.first_s, self.rate = dies, answers, costly, first_s, rate
        self.holds = holds
        self.loop = asyncio.get_running_loop()
        self.parts: list[bytes] = []
        self.missing = -1  # bytes of the body; -1: the head is not there yet
        self.gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "create_server makes connections that can be written to"
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True

    def data_received(self, data: bytes) -> None:
        self.parts.append(data)
        if self.missing < 0:
            head, end, body = b"".join(self.parts).partition(b"\r\n\r\n")
            if not end:
                return
            length = LENGTH.search(head)
            self.method, self.path = head.split(b" ", 2)[:2]
            self.is_costly = bool(COSTLY.search(head))
            self.is_held = self.holds and bool(OF_A_JOB.search(head))
            self.missing = (int(length.group(1)) if length else 0) - len(body)
            self.parts = [body]
            if b"100-continue" in head:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        else:
            self.missing -= len(data)
        if self.missing == 0:
            body, self.parts, self.missing = b"".join(self.parts), [], -1
            self.answer(self.method, self.path, body)

    def answer(self, method: bytes, path: bytes, body: bytes) -> None:
        if method == b"POST" and self.is_held:
            return
        if method == b"POST":
            ends = body[:SEARCHED] + body[-SEARCHED:]
            streams = bool(STREAMS.search(ends))
            self.answers = self.costly if self.is_costly else self.both[bool(LOGPROBS.search(ends))]
            self.dies.enter(self.stream if streams else self.decode)
        elif path.endswith(b"/models"):
            served = {"id": MODEL, "object": "model", "root": "/simulated"}
            self.transport.write(as_http({"object": "list", "data": [served]}))
        elif path == b"/stats":
            stats = {"served": self.dies.served, "waiting": len(self.dies.waiting), "most": self.dies.most_waiting}
            self.transport.write(as_http(stats))
        else:
            self.transport.write(as_http({}))

    def decode(self) -> None:
        seconds = self.first_s + sum(self.answers.counts) / self.rate
        self.loop.call_later(seconds, self.finish, self.answers.whole)

    def stream(self) -> None:
        self.loop.call_later(self.first_s, self.piece, 0)

    def piece(self, number: int) -> None:
        if self.gone:  # the client hung up, which ends the decoding
            return self.dies.leave()
        self.transport.write((self.answers.head if number == 0 else b"") + self.answers.pieces[number])
        counts = self.answers.counts
        if number + 1 < len(counts):
            self.loop.call_later(counts[number + 1] / self.rate, self.piece, number + 1)
        else:  # `tokens` at `rate` follow the first token, so the whole takes as long as in one piece
            self.loop.call_later(1 / self.rate, self.finish, self.answers.tail)

    def finish(self, data: bytes) -> None:
        self.dies.leave()
        if not self.gone:
            self.transport.write(data)


async def serve(options: argparse.Namespace) -> None:
    dies = Dies(options.dies, options.slots)
    words = cheap(options.tokens)
    answers = {asked: Answers(words, options.interval, logprobs=asked) for asked in (False, True)}
    long = Answers(costly(options.tokens), options.interval)
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(dies, answers, long, options.first_ms / 1000, options.rate, options.hold_jobs),
        "127.0.0.1",
        options.port,
        backlog=4096,
    )
    print(f"ready {server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--dies", type=int, default=1)
    parser.add_argument("--slots", type=int, default=64, help="requests at a time per die")
    parser.add_argument("--first-ms", type=float, default=120.0)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--rate", type=float, default=50.0, help="tokens per second and request")
    parser.add_argument("--interval", type=int, default=20, help="tokens per piece of a stream")
    parser.add_argument("--hold-jobs", action="store_true", help="never answer what a job asks")
    asyncio.run(serve(parser.parse_args(words)))


if __name__ == "__main__":
    main(sys.argv[1:])
