# SPDX-License-Identifier: Apache-2.0
"""A simulated layout server on a die: the real one's wire, the layout model's answers, and a die's time for each page.

A die does not run on the parser's cores, so this one must cost next to none of them: a page that came before gets the
answer that the model gave then, on OpenVINO in this process. Pages take ``--page-ms`` one after the other.

    python -m parser_bench.simulated_layout MODEL_DIR CACHE_DIR        prints "ready PORT"
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from docparser.layout.served import NAMES
from docparser.settings import Settings
from docparser.worker import offline
from layout_wire import CONTENT_TYPE, MODEL_HEADER, PATH, full_image, pack, unpack
from paddle_program.program import model_checksum


class Die:
    """``engine`` answers a page's arrays; ``page_s`` is what every page takes."""

    def __init__(self, engine: Callable[[Sequence[np.ndarray]], list[np.ndarray]], page_s: float) -> None:
        self._engine, self._page_s, self._lock = engine, page_s, threading.Lock()
        self._answers: dict[int, bytes] = {}

    def answer(self, body: bytes) -> bytes:
        """Raises BadMessage for what is no page."""
        page = zlib.crc32(body)
        with self._lock:
            if page not in self._answers:
                arrays = unpack(body)
                found = self._engine([full_image(arrays[name]) for name in NAMES])
                self._answers[page] = pack({str(at): value for at, value in enumerate(found)})
            time.sleep(self._page_s)
        return self._answers[page]


def handler(die: Die, model: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.reply(200, f'{{"model": "{model}"}}'.encode())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path != PATH or self.headers[MODEL_HEADER] != model:
                return self.reply(409, b'{"error": "another model, or no page"}')
            self.reply(200, die.answer(body))

        def reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """One line for each page would fill the terminal."""

    return Handler


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_dir", type=Path)
    parser.add_argument("cache_dir", type=Path)
    parser.add_argument("--page-ms", type=float, default=20.0)
    options = parser.parse_args(words)
    settings = Settings(cache_dir=options.cache_dir, layout_engine="openvino", cpu_threads=1)
    offline.prepare(settings.cache_dir)
    from docparser.page.layout_model import openvino_engine

    engine = openvino_engine(settings, options.model_dir)
    if engine is None:
        raise SystemExit(f"{options.model_dir}: OpenVINO cannot run this model; the log says why")
    die = Die(engine, options.page_ms / 1000)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(die, model_checksum(options.model_dir)))
    server.daemon_threads = True
    print(f"ready {server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
