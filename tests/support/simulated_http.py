# SPDX-License-Identifier: Apache-2.0
"""A small HTTP server in threads, on a loopback port, for the simulated VLM and the simulated parser."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class QuietServer(ThreadingHTTPServer):
    """Clients that hang up are part of the tests, so nothing is said about them."""

    daemon_threads = True

    def __init__(self, *arguments) -> None:
        self._connections: list[socket.socket] = []
        super().__init__(*arguments)

    def get_request(self):
        connection, address = super().get_request()
        self._connections.append(connection)
        return connection, address

    def hang_up(self) -> None:
        """Cut the connections that clients keep: their threads would go on answering after the server is closed."""
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request, client_address) -> None:
        pass


class JsonHandler(BaseHTTPRequestHandler):
    """Reads and writes JSON bodies."""

    def body(self) -> dict:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def refuses(self, key: str) -> bool:
        """Whether the request lacks `key`; then it is answered as vLLM does with --api-key. An empty one is no key."""
        if refused := bool(key) and self.headers["Authorization"] != f"Bearer {key}":
            self.reply(401, {"error": "Unauthorized"})
        return refused

    def reply(self, status: int, body: dict, **headers: str) -> None:
        """`headers`: names with `_` for `-`."""
        self.text(status, json.dumps(body), Content_Type="application/json", **headers)

    def text(self, status: int, text: str, **headers: str) -> None:
        """A body of any type; `headers` as in `reply`."""
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


class SimulatedServer:
    """A server that runs in threads until `close`; `open` brings it back on the same port."""

    healthy = True

    def __init__(self, port: int = 0) -> None:
        self.lock = threading.Lock()
        self.port = port
        self.open()

    def handler(self) -> type[JsonHandler]:
        """The class that answers requests."""
        raise NotImplementedError

    def open(self) -> None:
        self.server = QuietServer(("127.0.0.1", self.port), self.handler())
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    @property
    def closed(self) -> bool:
        return self.server.socket.fileno() == -1

    def close(self) -> None:
        """Does nothing when the server is closed already."""
        if self.closed:
            return
        self.server.shutdown()
        self.server.server_close()
        self.server.hang_up()
        self.thread.join()
