# SPDX-License-Identifier: Apache-2.0
"""Stands before a real VLM server and keeps what it was asked; every answer is the server's own."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

from tests.support.simulated_http import JsonHandler, SimulatedServer

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
ASKED_S = 600


class RecordingProxy(SimulatedServer):
    """`requests` are the chat completions about blocks, in the order of their arrival; those of readiness, whose
    ids begin with `ready-`, are left out."""

    def __init__(self, server: str) -> None:
        self.server_url = server
        self.requests: list[dict] = []
        super().__init__()
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def handler(self) -> type[JsonHandler]:
        proxy = self

        class Handler(JsonHandler):
            def do_GET(self) -> None:
                self.pass_on(None)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if not self.headers.get("X-Request-Id", "").startswith("ready-"):
                    with proxy.lock:
                        proxy.requests.append(json.loads(body))
                self.pass_on(body)

            def pass_on(self, body: bytes | None) -> None:
                headers = {
                    name: self.headers[name] for name in ("Content-Type", "X-Request-Id") if name in self.headers
                }
                request = urllib.request.Request(proxy.server_url + self.path, body, headers)
                try:
                    with OPENER.open(request, timeout=ASKED_S) as answer:
                        status, kind, text = answer.status, answer.headers["Content-Type"], answer.read()
                except urllib.error.HTTPError as error:
                    status, kind, text = error.code, error.headers["Content-Type"], error.read()
                self.text(status, text.decode(), Content_Type=kind or "text/plain")

        return Handler
