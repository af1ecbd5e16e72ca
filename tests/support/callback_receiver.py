# SPDX-License-Identifier: Apache-2.0
"""A receiver of callbacks on a loopback port; a test says what it answers."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable
from typing import Any

from tests.support.simulated_http import JsonHandler, SimulatedServer

SECRET = "whsec_" + "c2VjcmV0IG9mIGEgdGVzdCwgbm90IG9mIGFueW9uZQ=="


@dataclasses.dataclass(frozen=True)
class Received:
    """``headers`` by lower-case name; ``told`` is the body's JSON."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def told(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


class Receiver(SimulatedServer):
    """``answer(path, number)``: status and headers for the request to ``path`` that is its ``number``-th. Requests to
    ``/slow`` wait until ``released``."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answer: Callable[[str, int], tuple[int, dict[str, str]]] = lambda path, number: (204, {})
        self.released = threading.Event()
        self.held = self.most_held = 0
        super().__init__()

    def address(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    @property
    def hosts(self) -> str:
        """What PARSER_CALLBACK_HOSTS needs for it."""
        return f"127.0.0.1:{self.port},localhost:{self.port}"

    def at(self, path: str) -> list[Received]:
        with self.lock:
            return [request for request in self.received if request.path == path]

    def handler(self) -> type[JsonHandler]:
        receiver = self

        class Handler(JsonHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with receiver.lock:
                    receiver.received.append(Received(self.path, headers, body))
                    number = sum(request.path == self.path for request in receiver.received)
                if self.path == "/slow":
                    self._hold()
                status, more = receiver.answer(self.path, number)
                self.send_response(status)
                for name, value in more.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.path == "/endless":
                    self._drip()

            do_GET = do_POST

            def _hold(self) -> None:
                with receiver.lock:
                    receiver.held += 1
                    receiver.most_held = max(receiver.most_held, receiver.held)
                receiver.released.wait(300)
                with receiver.lock:
                    receiver.held -= 1

            def _drip(self) -> None:
                while not receiver.released.wait(0.02):
                    try:
                        self.wfile.write(b"x" * 1000)
                    except OSError:
                        return

        return Handler

    def close(self) -> None:
        self.released.set()
        super().close()
