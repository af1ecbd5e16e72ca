# SPDX-License-Identifier: Apache-2.0
"""What stands between a parser and its VLM: a simulated balancer, and the ways in which the VLM can be away behind it.

It passes whole requests on, and whole answers back. `mode` says what it does instead.
"""

from __future__ import annotations

import http.client
import socket
import time

from tests.support.simulated_http import JsonHandler, SimulatedServer

PAGE = b"<html><body><h1>%d %s</h1>\nNo server is available to handle this request.\n</body></html>\n"
PHRASES = {502: b"Bad Gateway", 503: b"Service Unavailable", 504: b"Gateway Time-out"}
JSON = b'{"error": {"message": "no healthy upstream"}}'
HOP = ("connection", "transfer-encoding", "content-length", "date", "server")


class SimulatedBalancer(SimulatedServer):
    """`mode`: `pass`; `502 html`, `503 json` and so on: this status in this form; `reset`: it reads the request and
    resets the connection; `half`: it passes the request on and half of the answer back; `hang`: nothing until the mode
    changes. Closed (`close`), it refuses connections.

    `answered` counts the chat completions that were passed back as a whole.
    """

    def __init__(self, backend: int) -> None:
        self.backend = backend
        self.mode = "pass"
        self.answered = 0
        super().__init__(0)

    def handler(self) -> type[JsonHandler]:
        balancer = self

        class Handler(JsonHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.serve(b"")

            def do_POST(self):
                self.serve(self.rfile.read(int(self.headers["Content-Length"])))

            def serve(self, body: bytes) -> None:
                self.close_connection = True
                while (mode := balancer.mode) == "hang":
                    time.sleep(0.02)
                if mode == "reset":
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    return
                if mode not in ("pass", "half"):
                    self.fail(*mode.split(" "))
                    return
                try:
                    answer, data = self.ask_backend(body)
                except (OSError, http.client.HTTPException):
                    self.fail("503", "html")
                    return
                headers = {name: value for name, value in answer.getheaders() if name.lower() not in HOP}
                half = mode == "half" or balancer.mode == "half"
                self.head(answer.status, headers, len(data))
                self.wfile.write(data[: len(data) // 2] if half else data)
                if not half and self.command == "POST":
                    with balancer.lock:
                        balancer.answered += 1

            def ask_backend(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
                connection = http.client.HTTPConnection("127.0.0.1", balancer.backend, timeout=60)
                headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
                try:
                    connection.request(self.command, self.path, body or None, headers)
                    answer = connection.getresponse()
                    return answer, answer.read()
                finally:
                    connection.close()

            def fail(self, status: str, form: str) -> None:
                number = int(status)
                data = JSON if form == "json" else PAGE % (number, PHRASES[number])
                kind = "application/json" if form == "json" else "text/html"
                self.head(number, {"Content-Type": kind}, len(data))
                self.wfile.write(data)

            def head(self, status: int, headers: dict[str, str], length: int) -> None:
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(length), "Connection": "close"}.items():
                    self.send_header(name, value)
                self.end_headers()

        return Handler
