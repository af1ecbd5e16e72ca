# SPDX-License-Identifier: Apache-2.0
"""The simulated parser: `/layout-parsing` and the health pages on a loopback port.

It reads nothing. The real parser is used in `tests/parser` and `tests/e2e`.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from tests.support.simulated_http import JsonHandler, SimulatedServer

HELLO = {
    "prunedResult": {"parsing_res_list": []},
    "markdown": {"text": "Hello ![](imgs/a.jpg)", "images": {"imgs/a.jpg": "QUJD"}},
}
# Every block of the real one has these.
BLOCK: dict[str, Any] = {"block_label": "text", "block_content": "", "block_bbox": [10, 10, 90, 40]}


class SimulatedParser(SimulatedServer):
    """Attributes that a test may set:

    - `script[number]`: what happens to a page: statuses and `"drop"` (the connection ends), one for each try; then the
      page is answered;
    - `always`: a status that every page gets; `says`: the words that come with it;
    - `notes`: numbers of pages in which one block was not read;
    - `doubts`: confidences of blocks that are doubtful, by the page's number; None of a text that was cut;
    - `sources`: whose letters the blocks of a page have, by its number;
    - `together`: answers wait until so many pages were here at once; `most`: all answers but so many wait until it is
      None;
    - `delay_s` before each answer; `healthy`; `key` that clients must send; `pages_counted` in each document.

    What it saw: `seen`, the tries of each page; `in_flight`, `most_in_flight`.
    """

    def __init__(self, port: int = 0) -> None:
        self.script: dict[int, list] = {}
        self.always: int | None = None
        self.says = ""
        self.notes: set[int] = set()
        self.doubts: dict[int, list[float | None]] = {}
        self.sources: dict[int, list[str]] = {}
        self.together = 1
        self.most: int | None = None
        self.delay_s = 0.0
        self.healthy = True
        self.key = ""
        self.pages_counted = 1
        self.seen: Counter[int] = Counter()
        self.answered = 0
        self.in_flight = self.most_in_flight = 0
        super().__init__(port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def number_of(self, body: dict) -> int:
        """The number of a request's page."""
        return 1

    def result(self, number: int, body: dict) -> dict:
        """The `result` for a page."""
        return {"layoutParsingResults": [HELLO], "dataInfo": {"type": "pdf", "numPages": self.pages_counted}}

    def respond(self, body: dict) -> tuple[int, dict] | None:
        """Status and body; None: the connection ends without an answer."""
        number = self.number_of(body)
        with self.lock:
            self.seen[number] += 1
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            event = self.always or (self.script.get(number) and self.script[number].pop(0))
        time.sleep(self.delay_s)
        while self.most_in_flight < self.together or not self._may_answer():
            time.sleep(0.01)
        with self.lock:
            self.in_flight -= 1
        if event == "drop":
            return None
        if event:
            return event, {"logId": "x", "errorCode": event, "errorMsg": self.says or f"file: told to answer {event}"}
        result = self.result(number, body)
        for entry in result["layoutParsingResults"]:
            listed = [
                BLOCK | {"block_id": index, "confidence": confidence, "doubtful": confidence != 1}
                for index, confidence in enumerate(self.doubts.get(number, []))
            ]
            listed += [BLOCK | {"source": source} for source in self.sources.get(number, [])]
            if listed:
                entry["prunedResult"] = {**entry["prunedResult"], "parsing_res_list": listed}
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

    def handler(self) -> type[JsonHandler]:
        parser = self

        class Handler(JsonHandler):
            def do_GET(self):
                if self.path not in ("/health", "/health/ready"):
                    return self.refuse(404, f"no such page: {self.path}")
                if not parser.healthy:
                    return self.refuse(503, "not ready")
                return self.reply(200, {"errorCode": 0, "errorMsg": "Ready"})

            def do_POST(self):
                body = self.body()
                if self.path != "/layout-parsing":
                    return self.refuse(404, f"no such page: {self.path}")
                if parser.key and self.headers["Authorization"] != f"Bearer {parser.key}":
                    return self.refuse(401, "A key is needed")
                if not body.get("file") or body.get("fileType") not in (None, 0, 1):
                    return self.refuse(422, "file, fileType: a file as base64 and 0 or 1 are expected")
                response = parser.respond(body)
                if response is None:
                    self.close_connection = True
                    return None
                status, answer = response
                return self.reply(status, answer, **({"Retry_After": "0"} if status in (429, 503) else {}))

            def refuse(self, status: int, message: str) -> None:
                self.reply(status, {"logId": "x", "errorCode": status, "errorMsg": message})

        return Handler
