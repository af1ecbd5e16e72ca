# SPDX-License-Identifier: Apache-2.0
"""A simulated layout server: the real one's wire, and for each page one box that the test knows."""

from __future__ import annotations

import threading

import numpy as np

from layout_wire import MODEL_HEADER, PATH, pack, unpack
from tests.support.simulated_http import JsonHandler, SimulatedServer

BOX = np.array([[22, 0.9, 10, 20, 300, 400, 1, 0]], np.float32)


class SimulatedLayoutServer(SimulatedServer):
    """Strict as the real one: another model is 409, what is no page is 400. ``status`` and ``answer`` count instead of
    a page where they are set; ``asked`` counts requests, which are answered while ``free`` is set."""

    def __init__(self, model: str) -> None:
        self.model, self.asked, self.status, self.answer = model, 0, 200, b""
        self.free = threading.Event()
        self.free.set()
        super().__init__()

    def handler(self) -> type[JsonHandler]:
        outer = self

        class Handler(JsonHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.reply(200, {"model": outer.model, "device": "cpu", "batch": 1})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.asked += 1
                outer.free.wait()
                if outer.status != 200:
                    return self.reply(outer.status, {"error": "simulated"})
                if self.headers[MODEL_HEADER] != outer.model:
                    return self.reply(409, {"error": "another model"})
                if self.path != PATH or sorted(unpack(body)) != ["im_shape", "image", "scale_factor"]:
                    return self.reply(400, {"error": "no page"})
                answer = outer.answer or pack({"0": BOX, "1": np.ones(1, np.int32)})
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        return Handler
