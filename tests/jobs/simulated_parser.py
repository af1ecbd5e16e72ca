# SPDX-License-Identifier: Apache-2.0
"""The real service, whose worker processes have no pipeline: a page is one call of the VLM, about its number.

The VLM may answer with JSON: ``{"text": Markdown, "blocks": [...]}``.

HTTP, jobs, scheduler, worker processes and the reading of documents are real. What is simulated is what Paddle does with
a page, which takes seconds to load and is tested elsewhere.
"""

from __future__ import annotations

import base64
import io
import json
import sys
import threading
import types
import urllib.error
import urllib.request

from docparser.call_limit import CallLimit
from docparser.document import DocumentReader
from docparser.errors import Abandoned, InternalError, VlmUnavailable
from docparser.limits import Limits
from docparser.tasks import CountPages, JoinClientPages, ParsedPage, ParsePage
from PIL import Image

BLOCK = {"block_label": "text", "block_bbox": [10, 10, 90, 40], "block_id": 0, "block_order": 1}


def picture() -> str:
    with io.BytesIO() as buffer:
        Image.new("RGB", (100, 140), "white").save(buffer, "JPEG")
        return base64.b64encode(buffer.getvalue()).decode()


class PageWork:
    def __init__(self, settings, baton) -> None:
        self._settings = settings
        self._reader = DocumentReader(Limits.of(settings))
        self._lock = threading.Lock()
        self._cancelled: set[int] = set()
        self._picture = picture()
        self.pixels = 0
        self.vlm = types.SimpleNamespace(
            limit=CallLimit(start=64, lowest=4, highest=64, target_s=5), last_answer=0.0, counts={}
        )

    def cancel(self, number: int) -> None:
        self._cancelled.add(number)

    def do(self, number: int, task, on_waiting):
        if isinstance(task, CountPages):
            with self._lock:
                return self._reader.count_pages(task.document)
        if isinstance(task, JoinClientPages):
            texts = [
                "\n\n".join(block["block_content"] for block in page["parsing_res_list"]) for page, _ in task.pages
            ]
            return [json.dumps({"markdown": {"text": text, "images": {}}}).encode() for text in texts]
        assert isinstance(task, ParsePage)
        on_waiting()
        text = self._ask(f"{task.request_id} page {task.index + 1}")
        if number in self._cancelled:
            raise Abandoned("cancelled")
        said = json.loads(text) if text.startswith("{") else {"text": f'{text} <img src="imgs/a.jpg">'}
        blocks = [BLOCK | block for block in said.get("blocks", [{"block_content": text}])]
        entry = {
            "prunedResult": {"width": 100, "height": 140, "parsing_res_list": blocks},
            "markdown": {"text": said["text"], "images": {"imgs/a.jpg": self._picture}},
        }
        if task.options.answer.visualize:
            entry |= {"inputImage": self._picture, "outputImages": {"layout_det_res": self._picture}}
        return ParsedPage(json.dumps(entry).encode(), 100, 140, 1, [], {})

    def _ask(self, prompt: str) -> str:
        body = {
            "model": self._settings.vlm_model_name,
            "messages": [{"role": "user", "content": [{"type": "text", "text": prompt}]}],
        }
        request = urllib.request.Request(
            f"{self._settings.vlm_url}/chat/completions", json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )  # fmt: skip
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["choices"][0]["message"]["content"]
        except urllib.error.HTTPError as exc:
            raise InternalError(f"the VLM refused this page ({exc.code})") from None
        except (OSError, ValueError) as exc:
            raise VlmUnavailable(f"The VLM server cannot be reached ({exc}).") from None


# In the service and in its workers, which import this module too.
sys.modules["docparser.page_work"] = types.SimpleNamespace(PageWork=PageWork)

if __name__ == "__main__":
    from docparser.server import main

    sys.exit(main())
