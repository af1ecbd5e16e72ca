# SPDX-License-Identifier: Apache-2.0
"""A durable job of the parser of a compose project, by HTTP."""

from __future__ import annotations

import base64
import json
import urllib.request
from typing import Any

from tests.images.project import Project


class Job:
    def __init__(self, bundle: Project, document: bytes) -> None:
        self._url = f"{bundle.parser_url}/api/v2/ocr/jobs"
        url = "data:application/pdf;base64," + base64.b64encode(document).decode()
        body = json.dumps({"model": "PaddleOCR-VL", "fileUrl": url, "optionalPayload": {"visualize": False}})
        request = urllib.request.Request(self._url, body.encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            self.id = json.load(answer)["data"]["jobId"]

    def state(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self._url}/{self.id}", timeout=120) as answer:
            return json.load(answer)["data"]

    def results(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(self.state()["resultUrl"]["jsonUrl"], timeout=120) as answer:
            return [json.loads(line)["result"] for line in answer]
