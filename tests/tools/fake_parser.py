# SPDX-License-Identifier: Apache-2.0
"""A simulated parser for the tests of parse_folder: /layout-parsing and /health/ready on a loopback port.

It reads nothing: a page's number is hidden in its width (600 + number points or pixels, see ``numbered_pdf``), and its
answer has a heading, a table with a formula-like cell and a picture. The real parser is used in ``tests/e2e``.
"""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pypdfium2
from PIL import Image, ImageDraw

TABLE = (
    "<table><tr><th colspan='2'>Item</th><th>Price</th></tr><tr><td rowspan=2>Paper</td><td>A4</td><td>12.50</td></tr>"
    "<tr><td>A3</td><td>=HYPERLINK(1)</td></tr><tr><td>007</td><td>-3</td><td>+49 30</td></tr></table>"
)


def numbered_pdf(pages: int, wider: int = 1) -> bytes:
    """A PDF whose page n is 600 + n points wide; with `wider` 0 each is like the first."""
    pdf, buffer = pypdfium2.PdfDocument.new(), io.BytesIO()
    for number in range(1, pages + 1):
        pdf.new_page(601 + wider * (number - 1), 800)
    pdf.save(buffer)
    return buffer.getvalue()


def number_of(body: dict) -> int:
    data = base64.b64decode(body["file"])
    if body["fileType"] == 0:
        pdf = pypdfium2.PdfDocument(data)
        assert len(pdf) == 1, "pages come one at a time"
        return round(pdf[0].get_width()) - 600
    return Image.open(io.BytesIO(data)).width - 600


def jpeg(width: int, height: int) -> str:
    image, buffer = Image.new("RGB", (width, height), "white"), io.BytesIO()
    ImageDraw.Draw(image).rectangle((10, 10, width - 10, height // 2), outline="red", width=4)
    image.save(buffer, "JPEG")
    return base64.b64encode(buffer.getvalue()).decode()


def noise(width: int, height: int) -> str:
    """A picture that no JPEG makes small."""
    image, buffer = Image.effect_noise((width, height), 90).convert("RGB"), io.BytesIO()
    image.save(buffer, "JPEG", quality=95)
    return base64.b64encode(buffer.getvalue()).decode()


def answer(number: int, drawing: str | None) -> dict:
    """The `result` for one page."""
    blocks = [
        ("doc_title", f"Page {number}", [10, 10, 300, 40]),
        ("text", f"Text of page {number}.\x0b\n\nSecond paragraph.", [10, 50, 300, 90]),
        ("table", TABLE, [10, 100, 300, 300]),
        ("image", "", [10, 310, 110, 410]),
        ("footer", "left out", [10, 700, 300, 720]),
    ]
    listed = [{"block_label": a, "block_content": b, "block_bbox": c, "block_id": i} for i, (a, b, c) in enumerate(blocks)]
    name = "imgs/img_in_image_box_10_310_110_410.jpg"
    text = f'# Page {number}\n\nText of page {number}.\n\n{TABLE}\n\n<img src="{name}" />'
    entry = {
        "prunedResult": {"parsing_res_list": listed, "width": 600 + number, "height": 800},
        "markdown": {"text": text, "images": {name: jpeg(100, 100)}},
    }
    if drawing:
        entry["outputImages"] = {"layout_det_res": drawing}
    return {"layoutParsingResults": [entry], "docparser": {"partial": False, "pages": [], "models": {"vlm": "fake"}}}


class FakeParser:
    """``script[number]`` is what happens to a page: statuses and ``"drop"`` (the connection ends), one for each try, then
    the page is answered; ``"notes"`` adds a block that was not read. ``seen`` counts the tries of each page. Answers wait
    until ``together`` pages were here at once; and when ``most`` is set, all but so many wait for its end."""

    def __init__(self, port: int = 0) -> None:
        self.script: dict[int, list] = {}
        self.notes: set[int] = set()
        self.seen: Counter[int] = Counter()
        self.drawing: str | None = None  # of every page, in place of one with a box
        self.together, self.most = 1, None
        self.answered = 0
        self.key = ""
        self.in_flight = self.most_in_flight = 0
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def respond(self, body: dict) -> tuple[int, dict] | None:
        number = number_of(body)
        with self.lock:
            self.seen[number] += 1
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            event = self.script.get(number) and self.script[number].pop(0)
        while self.most_in_flight < self.together or not self._may_answer():
            time.sleep(0.01)
        with self.lock:
            self.in_flight -= 1
        if event == "drop":
            return None
        if event:
            return event, {"logId": "x", "errorCode": event, "errorMsg": f"told to answer {event}"}
        drawing = (self.drawing or jpeg(2 * (600 + number), 1600)) if body["visualize"] else None
        result = answer(number, drawing)
        if number in self.notes:
            blocks = [{"block_id": 1, "kind": "failed", "message": "the VLM broke"}]
            result["docparser"] |= {"partial": True, "pages": [{"page": 1, "blocks": blocks}]}
        return 200, {"logId": "x", "errorCode": 0, "errorMsg": "Success", "result": result}

    def _may_answer(self) -> bool:
        with self.lock:
            if self.most is not None and self.answered >= self.most:
                return False
            self.answered += 1
            return True

    def _handler(fake):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.reply(200, {"errorCode": 0, "errorMsg": "Ready"})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if fake.key and self.headers["Authorization"] != f"Bearer {fake.key}":
                    return self.reply(401, {"errorCode": 401, "errorMsg": "A key is needed"})
                response = fake.respond(body)
                if response is None:
                    self.close_connection = True
                    return None
                return self.reply(*response)

            def reply(self, status, body):
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                if status in (429, 503):
                    self.send_header("Retry-After", "0")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments):
                pass

        return Handler
