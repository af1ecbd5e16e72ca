# SPDX-License-Identifier: Apache-2.0
"""A client of a parser behind one address: a page at once, and jobs. Each call has a connection of its own."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any


class Client:
    """`host` is the name that the server is called by, `key` the API key."""

    def __init__(self, url: str, host: str, key: str) -> None:
        self._url, self._host, self._key = url, host, key

    def call(self, path: str, body: Any = None, timeout: float = 600) -> Any:
        """The answer's JSON. Raises HTTPError, and OSError where nobody answers."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Host": self._host, "Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        request = urllib.request.Request(path if "://" in path else self._url + path, data, headers)
        with urllib.request.urlopen(request, timeout=timeout) as answer:
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
        return self.call(f"/api/v2/ocr/jobs/{job}", timeout=60)["data"]

    def pages_done(self, job: str) -> int:
        return self.job(job)["docparser"]["pages"]["done"]

    def wait_for_pages(self, job: str, pages: int, seconds: float = 900) -> None:
        deadline = time.monotonic() + seconds
        while self.pages_done(job) < pages:
            assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {pages} pages: {self.job(job)}"
            time.sleep(0.5)

    def results(self, job: str) -> list[dict[str, Any]]:
        """The results of a job's pages, from the address that it names."""
        url = self.job(job)["resultUrl"]["jsonUrl"]
        path = "/" + url.split("://", 1)[1].split("/", 1)[1]
        request = urllib.request.Request(self._url + path, headers={"Host": self._host})
        with urllib.request.urlopen(request, timeout=60) as answer:
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
