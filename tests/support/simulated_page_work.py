# SPDX-License-Identifier: Apache-2.0
"""The real service with simulated page work: a page is one call of the VLM, about its number.

HTTP, jobs, scheduler, worker processes and the reading of documents are real. Simulated is what Paddle does with a
page, which takes seconds to load and is tested elsewhere. The VLM may answer with JSON: `{"text": Markdown, "blocks":
[...], "pruned": {...}}`,
and with `beside`, further members of the page's entry. Joining makes one table of all.

Run in the environment `parser`: `python -m tests.support.simulated_page_work`.
"""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import dataclasses
import io
import json
import os
import sys
import threading
import types
from typing import Any, cast

from PIL import Image

from docparser.contract.answers import NotedBlock, PageEntry, PrunedResult
from docparser.contract.schemas import RestructureRequest
from docparser.documents.page import DocumentLimits
from docparser.documents.reader import DocumentReader
from docparser.errors import Abandoned, InternalError
from docparser.vlm.client import Reply, VlmClient
from docparser.vlm.repetition import TEXT
from docparser.worker import process, sent_pages
from docparser.worker.main import main as worker
from docparser.worker.messages import CountPages, JoinClientPages, JoinPages, ParsedPage, ParsePage
from tests.support.samples import PICTURE_NAME

BLOCK = {"block_label": "text", "block_bbox": [10, 10, 90, 40], "block_id": 0, "block_order": 1}
PICTURE = {"block_label": "image", "block_bbox": [10, 50, 90, 130], "block_id": 1, "block_content": ""}


def picture() -> str:
    with io.BytesIO() as buffer:
        Image.new("RGB", (100, 140), "white").save(buffer, "JPEG")
        return base64.b64encode(buffer.getvalue()).decode()


def joined(request: RestructureRequest) -> list[PageEntry]:
    pruned = [cast(PrunedResult, page.prunedResult) for page in request.pages]
    texts = ["\n\n".join(block["block_content"] for block in page["parsing_res_list"]) for page in pruned]
    return [
        {"prunedResult": page, "markdown": {"text": text, "images": {}}}
        for page, text in zip(pruned, texts, strict=True)
    ]


def joined_frozen(entries: list[dict[str, Any]]) -> list[bytes]:
    """Of pages that were parsed with ``restructurePages``: their tables are one, in the place of the first."""
    found = [(entry, block) for entry in entries for block in entry["prunedResult"]["parsing_res_list"]]
    tables = [(entry, block) for entry, block in found if block["block_label"] == "table"]
    rows = "".join(block["block_content"].removeprefix("<table>").removesuffix("</table>") for _, block in tables)
    for place, (entry, block) in enumerate(tables):
        now = "" if place else f"<table>{rows}</table>"
        entry["markdown"]["text"] = entry["markdown"]["text"].replace(block["block_content"], now)
        block["block_content"] = now
    return [json.dumps(entry).encode() for entry in entries]


class PageWork:
    layout_engine = "paddle"  # nothing runs
    layout_server = None

    def __init__(self, settings, baton, children) -> None:
        self._settings = settings
        self._reader = DocumentReader(DocumentLimits.of(settings))
        self._lock = threading.Lock()
        self._cancelled: set[int] = set()
        self._picture = picture()
        self.pixels = 0
        self.vlm = VlmClient(settings)
        self._calls: dict[int, concurrent.futures.Future[Reply]] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="vlm-calls", daemon=True).start()
        asyncio.run_coroutine_threadsafe(self.vlm.open(), self._loop).result()

    def expect(self, number: int) -> None:
        """An early cancellation is kept in mind as any other."""

    def cancel(self, number: int) -> None:
        self._cancelled.add(number)
        if call := self._calls.get(number):
            call.cancel()

    def take_going_on(self) -> frozenset[int]:
        """A page has one block, after which it ends."""
        return frozenset()

    def do(self, run, on_waiting, report):
        number, task = run.number, run.task
        if isinstance(task, CountPages):
            with self._lock:
                return self._reader.count_pages(task.document)
        if isinstance(task, JoinClientPages):
            head, entries = sent_pages.answer(task.body, task.most, joined)
            return [json.dumps(line).encode() for line in (dataclasses.asdict(head), *entries)]
        if isinstance(task, JoinPages):
            return joined_frozen([json.loads(files["frozen.json"]) for files in task.frozen.values()])
        assert isinstance(task, ParsePage)
        on_waiting()
        reply = self._ask(number, task.request_id, f"{task.request_id} page {task.index + 1}")
        if number in self._cancelled:
            raise Abandoned("cancelled")
        text = reply.text
        notes: list[NotedBlock] = []
        if reply.note:
            notes.append({"kind": reply.note.kind, "message": reply.note.message, "block_id": 0})
        said: dict[str, Any] = (
            json.loads(text) if text.startswith("{") else {"text": f'{text} <img src="imgs/{PICTURE_NAME}">'}
        )
        listed = said.get("blocks", [{"block_content": text}, PICTURE])
        blocks = [BLOCK | {"block_id": place} | block for place, block in enumerate(listed)]
        entry: dict[str, Any] = {
            "prunedResult": {"width": 100, "height": 140, "parsing_res_list": blocks, **said.get("pruned", {})},
            "markdown": {"text": said["text"], "images": {said.get("picture", f"imgs/{PICTURE_NAME}"): self._picture}},
        }
        entry |= said.get("beside", {})
        frozen = None
        if task.options.restructurePages:
            frozen, entry = {"frozen.json": json.dumps(entry).encode()}, {}
        if task.options.visualize:
            entry |= {"inputImage": self._picture, "outputImages": {"layout_det_res": self._picture}}
        answered = 0 if notes else 1
        return ParsedPage(json.dumps(entry).encode(), 100, 140, answered, notes, {}, frozen, tokens=reply.tokens)

    def _ask(self, number: int, request_id: str, prompt: str) -> Reply:
        """With the real client of the VLM, as the pipeline has it."""
        body = {
            "model": self._settings.vlm_model_name,
            "messages": [{"role": "user", "content": [{"type": "text", "text": prompt}]}],
        }
        call = self._calls[number] = asyncio.run_coroutine_threadsafe(
            self.vlm.read_block(body, request_id, TEXT), self._loop
        )
        try:
            if number in self._cancelled:
                call.cancel()
            reply = call.result()
        except concurrent.futures.CancelledError:
            raise Abandoned("cancelled") from None
        finally:
            del self._calls[number]
        if reply.note is not None and reply.note.kind == "refused":
            raise InternalError(f"the VLM refused this page ({reply.note.message})")
        return reply


# Runs in the service and in its workers, which are started as this module too.
simulated = types.ModuleType("docparser.worker.page_work")
vars(simulated).update(PageWork=PageWork, TextChildren=lambda bounds: None)
sys.modules[simulated.__name__] = simulated

process.MODULE = "tests.support.simulated_page_work"

if __name__ == "__main__":
    if not sys.argv[1:]:
        from docparser import server  # workers do without them
        from docparser.parsing import scheduler

        if seconds := os.environ.get("SIMULATED_CANCEL_GRACE_S"):  # no setting, and longer than a test wants to wait
            scheduler.CANCEL_GRACE_S = float(seconds)
        sys.exit(server.main())
    worker(sys.argv[1:])
