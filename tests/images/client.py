# SPDX-License-Identifier: Apache-2.0
"""A client of a parser behind one address: a page at once, and jobs. Each call has a connection of its own."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

JOB_SECONDS = 1200.0  # generous: two busy cores


class Client:
    """`host` is the name that the server is called by, if it is not the address; `key` the API key, if it wants one."""

    def __init__(self, url: str, host: str = "", key: str = "") -> None:
        self.url = url
        self._host = {"Host": host} if host else {}
        self._key = {"Authorization": f"Bearer {key}"} if key else {}

    def _open(self, request: urllib.request.Request, timeout: float) -> HTTPResponse:
        for name, value in self._host.items():
            request.add_header(name, value)
        return urllib.request.urlopen(request, timeout=timeout)

    def call(self, path: str, body: Any = None, timeout: float = 600) -> Any:
        """The answer's JSON. Raises HTTPError, and OSError where nobody answers."""
        data = None if body is None else json.dumps(body).encode()
        headers = {**self._key, "Content-Type": "application/json"}
        with self._open(urllib.request.Request(self.url + path, data, headers), timeout) as answer:
            return json.load(answer)

    def parse(self, image: Path) -> dict[str, Any]:
        """`POST /layout-parsing`; the answer's result."""
        body = {"file": base64.b64encode(image.read_bytes()).decode(), "fileType": 1, "visualize": False}
        return self.call("/layout-parsing", body)["result"]

    def submit(self, document: bytes) -> str:
        """A PDF as a durable job; returns its id."""
        url = "data:application/pdf;base64," + base64.b64encode(document).decode()
        body = {"model": "PaddleOCR-VL", "fileUrl": url, "optionalPayload": {"visualize": False}}
        return self.call("/api/v2/ocr/jobs", body)["data"]["jobId"]

    def job(self, job: str) -> dict[str, Any]:
        return self.call(f"/api/v2/ocr/jobs/{job}", timeout=120)["data"]

    def wait_for_pages(self, job: str, pages: int) -> None:
        """Wait until so many of its pages are done."""
        self._wait(job, lambda state: state["docparser"]["pages"]["done"] >= pages)

    def wait_for_end(self, job: str) -> dict[str, Any]:
        """What the parser says of it when it has ended, well or not."""
        return self._wait(job, lambda state: state["state"] in ("done", "failed"))

    def _wait(self, job: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + JOB_SECONDS
        while not condition(state := self.job(job)):
            assert time.monotonic() < deadline, f"waited {JOB_SECONDS:.0f} s for a job: {state}"
            time.sleep(0.5)
        return state

    def results(self, job: str) -> list[dict[str, Any]]:
        """The results of a job's pages, from the address that it names, which needs no key."""
        url = self.job(job)["resultUrl"]["jsonUrl"]
        path = "/" + url.split("://", 1)[1].split("/", 1)[1]
        with self._open(urllib.request.Request(self.url + path), 120) as answer:
            return [json.loads(line)["result"] for line in answer]

    def answers(self) -> bool:
        """Whether somebody answers, whatever they say."""
        try:
            self.call("/health", timeout=30)
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True


def check_letter(result: dict[str, Any]) -> None:
    """The result of tests/data/letter.png: its text is there, and no part of it failed."""
    assert "dear" in result["layoutParsingResults"][0]["markdown"]["text"].lower(), result
    assert not result.get("docparser", {}).get("partial"), result


def check_note(result: dict[str, Any]) -> None:
    """The result of tests/images/note.png, likewise."""
    assert "reading room is closed" in result["layoutParsingResults"][0]["markdown"]["text"], result
    assert not result.get("docparser", {}).get("partial"), result


def check_job(client: Client, job: str, pages: int) -> None:
    """Wait for its end. Each of its pages, tests/data/letter.png, is there once, in order, and none failed."""
    state = client.wait_for_end(job)
    assert state["state"] == "done", state
    assert state["docparser"]["pages"] == {"queued": 0, "running": 0, "done": pages, "failed": 0}, state
    results = client.results(job)
    assert [result["docparser"]["pages"] for result in results] == [[{"page": page + 1}] for page in range(pages)]
    for result in results:
        check_letter(result)
