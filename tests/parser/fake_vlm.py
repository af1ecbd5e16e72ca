# SPDX-License-Identifier: Apache-2.0
"""A simulated VLM server for the parser's tests: the part of the OpenAI API that the parser uses, on a loopback port.

It reads nothing. Its answer names the prompt and a running number, so that tests can tell blocks apart, and every
request is kept for inspection. The real server is used in ``tests/e2e``.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from PIL import Image

MODEL = "PaddleOCR-VL-0.9B"


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *arguments):
        self._connections = []
        super().__init__(*arguments)

    def get_request(self):
        connection, address = super().get_request()
        self._connections.append(connection)
        return connection, address

    def hang_up(self):
        """Cut the connections that clients keep: their threads would go on answering after the server is closed."""
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request, client_address):
        """Clients that hang up are part of the tests."""


class FakeVlm:
    """Attributes that a test may set: ``answer(request, number)`` -> text or ``(status, message)``; ``delay_s``;
    ``model``, ``root``: what ``/v1/models`` names; ``healthy``: whether ``/health`` answers 200; ``streams``: whether
    it can; ``piece_delay_s`` between streamed pieces; ``finish_reason``."""

    def __init__(self, port: int = 0):
        self.requests: list[dict] = []
        self.lock = threading.Lock()
        self.in_flight = 0
        self.max_in_flight = 0
        self.reset()
        self.server = _QuietServer(("127.0.0.1", port), self._handler())
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def reset(self) -> None:
        self.requests.clear()
        self.max_in_flight = 0
        self.model = MODEL
        self.root = "/models/demo/PaddleOCR-VL"
        self.healthy = True
        self.delay_s = 0.0
        self.streams = True
        self.piece_delay_s = 0.0
        self.finish_reason = "stop"
        self.request_ids: list[str | None] = []
        self.streamed_pieces = 0
        self.hang_ups = 0
        self.answer = default_answer

    @contextlib.contextmanager
    def holding(self) -> Iterator[Callable[[], None]]:
        """Requests are kept until the body calls what it is given, or ends."""
        released, answer = threading.Event(), self.answer

        def hold(request: dict, number: int):
            released.wait()
            return answer(request, number)

        self.answer = hold
        try:
            yield released.set
        finally:
            released.set()
            self.answer = answer

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.server.hang_up()
        self.thread.join()

    def complete(self, request: dict) -> tuple[int, dict]:
        with self.lock:
            self.requests.append(request)
            number = len(self.requests)
            self.in_flight += 1
            self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            time.sleep(self.delay_s)
            result = self.answer(request, number)
        finally:
            with self.lock:
                self.in_flight -= 1
        if isinstance(result, tuple):
            status, message = result
            return status, {"error": {"message": message, "type": "BadRequestError", "code": status}}
        return 200, self.completion(result, number)

    def completion(self, text: str, number: int) -> dict:
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": self.finish_reason}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        body = {"id": f"fake-{number}", "object": "chat.completion", "created": 0, "model": self.model}
        return {**body, "choices": [choice], "usage": usage}

    def _handler(fake):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if self.path == "/health":
                    self.reply(200 if fake.healthy else 503, {})
                elif self.path == "/v1/models" and fake.healthy:
                    self.reply(
                        200, {"object": "list", "data": [{"id": fake.model, "root": fake.root, "object": "model"}]}
                    )
                else:
                    self.reply(503 if not fake.healthy else 404, {"error": {"message": "no such page"}})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if body.get("model") != fake.model:
                    self.reply(404, {"error": {"message": f"The model `{body.get('model')}` does not exist."}})
                elif self.headers.get("X-Request-Id", "").startswith("ready-"):
                    self.reply(200, fake.completion("", 0))  # the tiny request of readiness; no test counts it
                else:
                    fake.request_ids.append(self.headers.get("X-Request-Id"))
                    status, answer = fake.complete(body)
                    if status == 200 and body.get("stream") and fake.streams:
                        self.stream(answer["choices"][0])
                    else:
                        self.reply(status, answer)

            def stream(self, choice: dict):
                """The text in pieces of 20 characters, as server-sent events, until the client hangs up."""
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream; charset=utf-8")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                text, start = choice["message"]["content"] or "", 0
                try:
                    while start < len(text):
                        self.event({"delta": {"content": text[start : start + 20]}, "finish_reason": None})
                        start += 20
                        fake.streamed_pieces += 1
                        if fake.piece_delay_s:
                            time.sleep(fake.piece_delay_s)
                    self.event({"delta": {}, "finish_reason": choice["finish_reason"]})
                    self.wfile.write(b"data: [DONE]\n\n")
                except OSError:
                    fake.hang_ups += 1

            def event(self, choice: dict):
                body = {"object": "chat.completion.chunk", "choices": [{"index": 0, **choice}]}
                self.wfile.write(b"data: " + json.dumps(body).encode() + b"\n\n")
                self.wfile.flush()

            def reply(self, status: int, body: dict):
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass

        return Handler


def prompt_of(request: dict) -> str:
    return next(part["text"] for part in request["messages"][0]["content"] if part["type"] == "text")


def image_of(request: dict) -> Image.Image:
    url = next(part["image_url"]["url"] for part in request["messages"][0]["content"] if part["type"] == "image_url")
    return Image.open(io.BytesIO(base64.b64decode(url.split(",", 1)[1])))


def together(count: int, seconds: float = 10.0):
    """An ``answer`` that holds every request back until ``count`` of them are here, so that no slow machine can part
    them; after ``seconds`` in vain it lets go of all, and ``max_in_flight`` tells how many they were."""
    all_here = threading.Barrier(count)

    def answer(request: dict, number: int) -> str:
        with contextlib.suppress(threading.BrokenBarrierError):
            all_here.wait(seconds)
        return default_answer(request, number)

    return answer


def default_answer(request: dict, number: int) -> str:
    if prompt_of(request) == "Table Recognition:":
        return "<fcel>Item<fcel>Price<nl><fcel>Pen<fcel>3<nl>"
    width, height = image_of(request).size
    return f"{prompt_of(request)} block of {width} x {height}"
